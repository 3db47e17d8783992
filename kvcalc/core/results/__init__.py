"""The result classes: what every format shows and what scripts read. One module a command."""
