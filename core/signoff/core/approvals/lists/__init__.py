"""Lists of approvals: search, comparison and metrics."""
