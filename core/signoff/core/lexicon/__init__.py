"""Lexicon: the words of each language in which people answer, as data."""
