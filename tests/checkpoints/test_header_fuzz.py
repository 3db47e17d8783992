"""Damaged headers: whatever a bit flip, a cut or an inflated length does, it is refused by name.

Only KvcalcError may come out, in little time and memory; and what is still accepted must be what
the format's own package reads.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcalc.checkpoints.gguf import Skipped, read_gguf
from kvcalc.checkpoints.safetensors import parse_index, read_safetensors
from kvcalc.core.errors import KvcalcError

MAX_SECONDS, MAX_BYTES = 2.0, 8 * 2**20
LENGTHS = [0, 1, 2, 255, 2**16, 2**31 - 1, 2**32, 10**9, 2**53, 2**63 - 1, 2**63, 2**64 - 1]
FUZZ = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Damage(NamedTuple):
    """What happens where: one bit, byte, digit or 64-bit length, a cut, or 64 bytes doubled."""

    kind: str
    place: int
    value: int


DAMAGES = st.lists(
    st.one_of(
        st.builds(Damage, st.just("flip"), st.integers(0, 10**6), st.integers(0, 7)),
        st.builds(Damage, st.just("byte"), st.integers(0, 10**6), st.integers(0, 255)),
        st.builds(Damage, st.just("length"), st.integers(0, 10**6), st.sampled_from(LENGTHS)),
        st.builds(Damage, st.just("cut"), st.integers(0, 10**6), st.just(0)),
        st.builds(Damage, st.just("copy"), st.integers(0, 10**6), st.integers(0, 10**6)),
        st.builds(Damage, st.just("digit"), st.integers(0, 10**6), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=4,
)


def damaged(raw: bytes, damages: list[Damage], header: int) -> bytes:
    """`raw` with damage to its first `header` bytes."""
    found = bytearray(raw)
    for kind, place, value in damages:
        if not found:
            break
        at = place % min(header, len(found))
        if kind == "flip":
            found[at] ^= 1 << value
        elif kind == "byte":
            found[at] = value
        elif kind == "length":
            found[at : at + 8] = value.to_bytes(8, "little")
        elif kind == "cut":
            del found[at:]
        elif kind == "copy":
            found[at:at] = found[value % len(found) :][:64]
        else:
            digits = [n for n, byte in enumerate(found[:header]) if 48 <= byte <= 57]
            if digits:
                found[digits[place % len(digits)]] = 48 + value
    return bytes(found)


def survives(read: Callable[[], Any]) -> Any:
    """What `read` returns, or None if it refuses as it should."""
    tracemalloc.start()
    begin = time.perf_counter()
    try:
        return read()
    except KvcalcError as error:
        refusal = error
    finally:
        assert time.perf_counter() - begin < MAX_SECONDS
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
        tracemalloc.stop()
    assert refusal.code == "unreadable_input"
    assert refusal.message.isprintable()
    assert len(refusal.message) < 1_000
    return None


@pytest.fixture(scope="module")
def real_gguf(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    gguf, numpy = pytest.importorskip("gguf"), pytest.importorskip("numpy")
    path = tmp_path_factory.mktemp("gguf") / "real.gguf"
    writer = gguf.GGUFWriter(path, "gemma3")
    writer.add_block_count(3)
    writer.add_head_count_kv([2, 0, 1])
    writer.add_array("gemma3.attention.sliding_window_pattern", [True, True, False])
    writer.add_rope_freq_base(1e6)
    writer.add_uint64("gemma3.big", 2**40)
    writer.add_chat_template("x" * 1_500)
    writer.add_token_list([f"<{n}>" for n in range(40)])
    writer.add_token_scores([0.5] * 40)
    writer.add_tensor("norm", numpy.zeros((48,), numpy.float32))
    writer.add_tensor("embed", numpy.zeros((5, 48), numpy.float16))
    raw = numpy.zeros((3, 68), numpy.uint8)
    writer.add_tensor("q8", raw, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes(), path.with_name("damaged.gguf")


@FUZZ
@given(damages=DAMAGES)
def test_damaged_gguf(real_gguf: tuple[bytes, Path], damages: list[Damage]) -> None:
    raw, path = real_gguf
    path.write_bytes(damaged(raw, damages, header=len(raw) - 900))
    found = survives(lambda: read_gguf(path))
    if found is None:
        return
    assert found.stored_bytes <= found.file_bytes == path.stat().st_size
    theirs = pytest.importorskip("gguf").GGUFReader(path)
    assert [(t.name, t.type, t.stored_bytes) for t in found.tensors] == [
        (t.name, t.tensor_type.name, t.n_bytes) for t in theirs.tensors
    ]
    assert found.alignment == theirs.alignment
    for key, value in found.metadata.items():
        if isinstance(value, int):
            assert value == theirs.fields[key].contents()
        elif isinstance(value, Skipped) and value.array:
            assert value.length == len(theirs.fields[key].data)


@pytest.fixture(scope="module")
def real_safetensors(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    numpy = pytest.importorskip("numpy")
    save_file = pytest.importorskip("safetensors.numpy").save_file
    path = tmp_path_factory.mktemp("safetensors") / "real.safetensors"
    tensors = {
        "model.embed.weight": numpy.zeros((7, 5), numpy.float32),
        "model.norm.weight": numpy.zeros((5,), numpy.float16),
        "scale": numpy.zeros((), numpy.float64),
        "ids": numpy.zeros((2, 3, 4), numpy.int8),
    }
    save_file(tensors, path, metadata={"format": "np"})
    return path.read_bytes(), path.with_name("damaged.safetensors")


@FUZZ
@given(damages=DAMAGES)
def test_damaged_safetensors(real_safetensors: tuple[bytes, Path], damages: list[Damage]) -> None:
    raw, path = real_safetensors
    header = 8 + int.from_bytes(raw[:8], "little")
    path.write_bytes(damaged(raw, damages, header))
    found = survives(lambda: read_safetensors(path))
    if found is None:
        return
    assert found.stored_bytes + found.bytes_read == found.file_bytes == path.stat().st_size
    theirs = dict(pytest.importorskip("safetensors").deserialize(path.read_bytes()))
    assert {t.name: (t.dtype, list(t.shape), t.stored_bytes) for t in found.tensors} == {
        name: (t["dtype"], t["shape"], len(t["data"])) for name, t in theirs.items()
    }


@FUZZ
@given(damages=DAMAGES)
def test_damaged_index(damages: list[Damage]) -> None:
    raw = (
        b'{"metadata": {"total_size": 1234}, "weight_map": {"model.embed.weight":'
        b' "model-00001-of-00002.safetensors", "lm_head.weight":'
        b' "model-00002-of-00002.safetensors"}}'
    )
    found = survives(lambda: parse_index(damaged(raw, damages, len(raw)), "index.json"))
    if found is not None:
        assert all(name.endswith(".safetensors") for name in found.shards)
        assert not any(".." in name.split("/") or name.startswith("/") for name in found.shards)


@FUZZ
@given(raw=st.binary(max_size=400), version=st.sampled_from([b"", b"\2\0\0\0", b"\0\0\0\3"]))
def test_noise_after_the_magic(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, version: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.gguf"
    path.write_bytes(b"GGUF" + version + raw)
    assert survives(lambda: read_gguf(path)) is None
    path.write_bytes(len(raw).to_bytes(8, "little") + b"{" + raw)
    assert survives(lambda: read_safetensors(path)) is None
