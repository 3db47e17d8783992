"""What this machine's own tools say of its GPUs, and the preset that each of them is.

One file a source, each with a pure parser of the tool's text; `run` is the only part that starts a
program. Loaded by `kvcalc gpus --detect` and `--gpu auto` alone.
"""
