"""The sizing engine: standard library only, no I/O, no printing, no clock."""
