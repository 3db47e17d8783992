"""A result in each format; nothing is computed here."""
