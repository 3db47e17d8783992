"""The Python functions behind every command; one file a command, loaded when first used."""
