"""A pasted launch line of a serving engine to kvcalc's own options; one file an engine."""
