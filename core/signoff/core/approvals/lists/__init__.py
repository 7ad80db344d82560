"""Many approvals at once: searched, listed, compared and counted."""
