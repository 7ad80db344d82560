"""The checks of `signoff doctor`."""
