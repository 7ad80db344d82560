"""What operators see from outside: metrics and traces."""
