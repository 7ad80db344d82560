"""The domain of Signoff: approvals, policies, people, decisions.

Everything here is pure: no I/O, no clock, no globals. The present is always an argument.
"""
