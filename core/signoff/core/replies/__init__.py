"""Replies: what people's own words mean."""
