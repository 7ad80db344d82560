"""The measurements of Signoff; see docs/explanation/performance.md."""
