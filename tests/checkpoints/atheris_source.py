"""Coverage-guided fuzzing of a MODEL that is a path; needs atheris, which is no dependency.

python -m tests.checkpoints.atheris_source KIND FOLDER [libFuzzer's own options]

KIND is json, gguf or safetensors; FOLDER takes the inputs found so far and the file under test.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["kvcalc"]):
    from kvcalc.checkpoints import config, gguf, gguf_model, safetensors, source, stored
    from kvcalc.core.errors import KvcalcError

from tests.checkpoints.files import CONFIG, LLAMA, hf_tensors, llama_tensors
from tests.checkpoints.files import gguf as write_gguf
from tests.checkpoints.files import safetensors as write_safetensors

_LOADED = (config, gguf, gguf_model, safetensors, stored)
DATA = Path(__file__).parents[1] / "data" / "configs"


def main(kind: str, folder: Path) -> None:
    """Feed mutated files to `load_source` until libFuzzer's options end it."""
    corpus, path = folder / "corpus", folder / f"model.{kind}"
    corpus.mkdir(exist_ok=True)
    if kind == "json":
        for file in DATA.glob("*.json"):
            (corpus / file.stem).write_bytes(file.read_bytes())
    elif kind == "gguf":
        write_gguf(corpus / "a", LLAMA, llama_tensors(), tokens=9)
    else:
        (folder / "config.json").write_text(json.dumps(CONFIG))
        write_safetensors(corpus / "a", dict(list(hf_tensors().items())[:3]))

    def one(data: bytes) -> None:
        path.write_bytes(data)
        try:
            model = source.load_source(os.fspath(path))
        except KvcalcError:
            return
        assert model.layers

    atheris.Setup([sys.argv[0], str(corpus), *sys.argv[3:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
