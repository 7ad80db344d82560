"""The archive: ended runs and their part of the audit, in files."""
