"""Cards: what a person is shown, before any channel gives it a form."""
