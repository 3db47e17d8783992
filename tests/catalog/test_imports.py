"""What the catalog costs at start: no heavy module for shipped presets, little time for all."""

from __future__ import annotations

import os
import subprocess
import sys

from kvcalc.catalog.locate import PACKAGE

HEAVY = ("pydantic", "rich", "typer", "pathlib", "importlib.resources", "difflib", "tomllib")
SCRIPT = f"""
import sys
from kvcalc.catalog.models import load_model
from kvcalc.catalog.gpus import load_gpu
load_model("llama-3.1-70b"), load_model("meta-llama/Llama-3.1-8B"), load_model("gemma 3 27b")
load_gpu("h100"), load_gpu("RTX 4090")
print([name for name in {HEAVY!r} if name in sys.modules])
"""


def run(script: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(PACKAGE)}
    environment.pop("KVCALC_PRESETS", None)
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_shipped_presets_need_no_heavy_module() -> None:
    assert run(SCRIPT) == "[]"


def test_a_file_is_found_without_the_index() -> None:
    """An id is its file's name: the index, which holds every alias, is not read for it."""
    script = (
        "from kvcalc.catalog import index, models; models.load_model('gpt-2'); print(index._loaded)"
    )
    assert run(script) == "{}"
