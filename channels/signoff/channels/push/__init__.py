"""Web push: people's devices show that a request waits. Notifications decide nothing."""
