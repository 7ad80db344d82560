"""What each process is put together from, and how processes are run."""
