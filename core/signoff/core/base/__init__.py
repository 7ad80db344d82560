"""What every room of the domain uses: errors, values, texts, times."""
