"""Cards: their content, which each channel renders in its own form."""
