"""Damaged models through the front door: a refusal by name or a model, in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcalc.checkpoints.source import is_path, load_source
from kvcalc.checkpoints.stored import with_weights
from kvcalc.core.errors import CODES, KvcalcError
from kvcalc.core.model import Model
from tests.checkpoints.files import CONFIG, LLAMA, gguf, hf_tensors, llama_tensors, safetensors

DATA = sorted((Path(__file__).parents[1] / "data" / "configs").glob("*.json"))
MAX_SECONDS, MAX_BYTES = 3.0, 32 * 2**20
FUZZ = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
LENGTHS = [0, 1, 255, 2**31 - 1, 2**32, 2**53, 2**63 - 1, 2**64 - 1]
#: (kind, place, value): one byte set, a 64-bit length written, the rest cut off, 64 bytes doubled.
DAMAGE = st.lists(
    st.tuples(
        st.sampled_from(["byte", "length", "cut", "copy"]),
        st.integers(0, 10**5),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=5,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def damaged(raw: bytes, damages: list[tuple[str, int, int]]) -> bytes:
    found = bytearray(raw)
    for kind, place, value in damages:
        at = place % max(len(found), 1)
        if kind == "byte":
            found[at : at + 1] = bytes([value])
        elif kind == "length":
            found[at : at + 8] = LENGTHS[value % len(LENGTHS)].to_bytes(8, "little")
        elif kind == "cut":
            del found[at:]
        else:
            found[at:at] = found[:64]
    return bytes(found)


def survives(path: Path) -> Model | None:
    """The model, or None for a refusal; nothing else may happen."""
    tracemalloc.start()
    begin = time.perf_counter()
    try:
        model, refused = load_source(str(path)), None
    except KvcalcError as error:
        model, refused = None, error
    finally:
        seconds, peak = time.perf_counter() - begin, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert seconds < MAX_SECONDS
    assert peak < MAX_BYTES
    if refused is not None:
        assert refused.code in CODES
        assert refused.message.isprintable()
        assert len(refused.message) < 2_000
    if model is not None:
        assert model.layers
        assert model.parameters is None or model.parameters > 0
    return model


@FUZZ
@given(damages=DAMAGE)
def test_a_damaged_gguf(tmp_path: Path, damages: list[tuple[str, int, int]]) -> None:
    path = tmp_path / "m.gguf"
    if not path.exists():
        gguf(path, LLAMA, llama_tensors(), tokens=20)
        (tmp_path / "raw").write_bytes(path.read_bytes())
    path.write_bytes(damaged((tmp_path / "raw").read_bytes(), damages))
    survives(path)


@FUZZ
@given(damages=DAMAGE)
def test_damaged_safetensors_beside_a_config(
    tmp_path: Path, damages: list[tuple[str, int, int]]
) -> None:
    path = tmp_path / "model.safetensors"
    if not path.exists():
        (tmp_path / "config.json").write_text(json.dumps(CONFIG))
        safetensors(path, hf_tensors())
        (tmp_path / "raw").write_bytes(path.read_bytes()[:4_000])
        (tmp_path / "size").write_text(str(path.stat().st_size))
    raw = damaged((tmp_path / "raw").read_bytes(), damages)
    with path.open("wb") as file:
        file.write(raw)
        file.truncate(int((tmp_path / "size").read_text()))
    survives(tmp_path)


@FUZZ
@given(path=st.sampled_from(DATA), damages=DAMAGE)
def test_a_damaged_config(tmp_path: Path, path: Path, damages: list[tuple[str, int, int]]) -> None:
    (tmp_path / "config.json").write_bytes(damaged(path.read_bytes(), damages))
    survives(tmp_path)


@FUZZ
@given(path=st.sampled_from(DATA), data=st.data())
def test_a_config_with_other_values(tmp_path: Path, path: Path, data: st.DataObject) -> None:
    config: dict[str, Any] = json.loads(path.read_text())
    for place in (config, *(v for v in config.values() if isinstance(v, dict))):
        for key in data.draw(st.lists(st.sampled_from(sorted(place)), max_size=3)):
            place[key] = data.draw(JSON)
    (tmp_path / "config.json").write_text(json.dumps(config))
    survives(tmp_path)


@FUZZ
@given(quantisation=JSON | st.dictionaries(
    st.sampled_from(["quant_method", "bits", "config_groups", "quant_algo", "load_in_4bit",
                     "weight_block_size", "group_size", "ignore"]),
    JSON | st.sampled_from(["awq", "gptq", "fp8", "mxfp4", "modelopt", "compressed-tensors"]),
))  # fmt: skip
@pytest.mark.parametrize("headers", [True, False])
def test_any_quantisation_leaves_the_cache_known(
    tmp_path: Path, quantisation: Any, headers: bool
) -> None:
    """Weights that are not understood are unknown; the cache does not depend on them."""
    config = {**CONFIG, "quantization_config": quantisation}
    (tmp_path / "config.json").write_text(json.dumps(config))
    if headers:
        safetensors(tmp_path / "model.safetensors", hf_tensors())
    model = survives(tmp_path)
    assert model is not None
    assert with_weights(model, config).layers == model.layers


@given(st.text(max_size=40))
def test_any_text_is_a_path_or_none(name: str) -> None:
    if is_path(name):
        with pytest.raises(KvcalcError):
            load_source(name + "/none.json")


@pytest.mark.parametrize("kind", ["json", "gguf", "safetensors"])
def test_a_few_thousand_runs_of_atheris(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("atheris")
    done = subprocess.run(
        [sys.executable, "-m", "tests.checkpoints.atheris_source", kind, str(tmp_path),
         "-runs=5000", "-max_total_time=60", "-rss_limit_mb=200", "-timeout=5", "-close_fd_mask=1"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
