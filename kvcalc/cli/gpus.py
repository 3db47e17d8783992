"""`kvcalc gpus`."""

from __future__ import annotations

from kvcalc.cli.lookup import run_lookup
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "gpus",
    "the accelerators kvcalc knows",
    ("vendor", "min_memory", "names", "detect"),
    argument=("[show] NAME", "one GPU in full; none lists them all", "gpus"),
    rest=True,
    note="--detect asks NVML (the extra kvcalc[gpu]), nvidia-smi, rocm-smi, amd-smi and macOS; the "
    "first that answers is believed. CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and "
    "HIP_VISIBLE_DEVICES hide what they hide from programs.",
    examples=(
        ("kvcalc gpus --min-memory 80GB", "large ones"),
        ("kvcalc gpus show h100", "its memory as a program sees it, and the sources"),
        ("kvcalc gpus --detect", "what this machine has; fit --gpu auto uses it"),
    ),
)
run = run_lookup("gpus")
