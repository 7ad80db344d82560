"""The benchmarks of Signoff; see docs/explanation/performance.md."""
