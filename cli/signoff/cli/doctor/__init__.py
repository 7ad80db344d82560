"""What `signoff doctor` looks at."""
