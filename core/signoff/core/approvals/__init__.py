"""Approvals: the calls, the approvers, the vote, and the runs to which approvals belong."""
