"""Approvals: what is asked, who answers, how answers are counted, and the run they belong to."""
