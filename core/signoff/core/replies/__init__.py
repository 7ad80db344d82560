"""What people answer: from their own words to what they mean."""
