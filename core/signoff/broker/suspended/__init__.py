"""What is kept of a call that waits: its arguments, its code, and what that code has called."""
