"""Commands about approvals: list, show, decide, review, grants."""
