"""An agent for the tests of compaction."""
