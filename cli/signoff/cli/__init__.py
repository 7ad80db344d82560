"""The composition root: the `signoff` command, its settings and its processes."""
