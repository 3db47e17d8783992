"""safetensors headers: what the safetensors package writes and accepts, and hand-made damage."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from math import prod
from pathlib import Path
from typing import Any

import pytest

from kvcalc.checkpoints.bounded import Total
from kvcalc.checkpoints.safetensors import (
    DTYPE_BITS,
    merge_shards,
    parse_header,
    parse_index,
    read_folder,
    read_index,
    read_safetensors,
)
from kvcalc.core.errors import KvcalcError

Entry = dict[str, Any]


def entry(dtype: str, shape: list[int], begin: int, end: int) -> Entry:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def packed(header: object, data_bytes: int = 0, length: int | None = None) -> bytes:
    """A whole file: length, JSON, zeros."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (
        (len(text) if length is None else length).to_bytes(8, "little") + text + bytes(data_bytes)
    )


def write(folder: Path, name: str, header: object, data_bytes: int = 0) -> Path:
    path = folder / name
    path.write_bytes(packed(header, data_bytes))
    return path


def refusal(path: Path | str) -> str:
    """The message of the refusal, which is one clean line with a hint."""
    with pytest.raises(KvcalcError) as caught:
        read_safetensors(path)
    assert caught.value.code == "unreadable_input"
    assert caught.value.message.isprintable()
    assert caught.value.hint
    return caught.value.message


# The safetensors package as the oracle.


def test_equals_what_safetensors_wrote(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    save_file = pytest.importorskip("safetensors.numpy").save_file
    safe_open = pytest.importorskip("safetensors").safe_open
    tensors = {
        "embed": numpy.zeros((7, 5), numpy.float32),
        "norm": numpy.zeros((5,), numpy.float16),
        "scale": numpy.zeros((), numpy.float64),
        "empty": numpy.zeros((0, 3), numpy.int8),
        "ids": numpy.zeros((2, 3, 4), numpy.int64),
        "mask": numpy.zeros((9,), numpy.bool_),
    }
    path = tmp_path / "model.safetensors"
    save_file(tensors, path, metadata={"format": "np", "note": "ä"})
    found = read_safetensors(path)
    with safe_open(path, framework="np") as theirs:
        assert {t.name: t.shape for t in found.tensors} == {
            name: tuple(theirs.get_slice(name).get_shape())
            for name in theirs.keys()  # noqa: SIM118
        }
        assert {t.name: t.dtype for t in found.tensors} == {
            name: theirs.get_slice(name).get_dtype()
            for name in theirs.keys()  # noqa: SIM118
        }
        assert found.metadata == theirs.metadata()
    assert {t.name: t.stored_bytes for t in found.tensors} == {
        name: array.nbytes for name, array in tensors.items()
    }
    assert found.parameters == sum(array.size for array in tensors.values())
    assert found.stored_bytes == sum(array.nbytes for array in tensors.values())
    assert found.types["F32"] == Total(tensors=1, elements=35, stored_bytes=140)
    assert found.file_bytes == path.stat().st_size == found.bytes_read + found.stored_bytes
    assert found.shards == ("model.safetensors",)


@pytest.mark.parametrize("dtype", DTYPE_BITS)
def test_every_dtype_as_safetensors_counts_it(tmp_path: Path, dtype: str) -> None:
    deserialize = pytest.importorskip("safetensors").deserialize
    size = 24 * DTYPE_BITS[dtype] // 8
    header = {"t": entry(dtype, [3, 8], 0, size)}
    path = write(tmp_path, "t.safetensors", header, size)
    try:
        theirs = deserialize(path.read_bytes())
    except Exception as error:  # noqa: BLE001 - an older safetensors lacks the newest dtypes
        assert "unknown variant" in str(error)  # noqa: PT017
    else:
        assert len(theirs[0][1]["data"]) == size
    tensor = read_safetensors(path).tensors[0]
    assert (tensor.dtype, tensor.elements, tensor.stored_bytes) == (dtype, 24, size)


BAD_HEADERS: dict[str, tuple[object, int]] = {
    "unknown dtype": ({"a": entry("Q7", [1], 0, 1)}, 1),
    "dtype no string": ({"a": {"dtype": 5, "shape": [1], "data_offsets": [0, 1]}}, 1),
    "shape makes another size": ({"a": entry("F32", [2], 0, 4)}, 4),
    "F4 of half a byte": ({"a": entry("F4", [3], 0, 1)}, 1),
    "negative dimension": ({"a": entry("U8", [-1], 0, 1)}, 1),
    "float dimension": ({"a": {"dtype": "U8", "shape": [1.0], "data_offsets": [0, 1]}}, 1),
    "true as dimension": ({"a": {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]}}, 1),
    "shape no list": ({"a": {"dtype": "U8", "shape": 1, "data_offsets": [0, 1]}}, 1),
    "offsets backwards": ({"a": entry("U8", [1], 1, 0)}, 1),
    "three offsets": ({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 1]}}, 1),
    "no offsets": ({"a": {"dtype": "U8", "shape": [1]}}, 1),
    "entry no object": ({"a": 5}, 0),
    "past the end": ({"a": entry("U8", [9], 0, 9)}, 8),
    "unused end": ({"a": entry("U8", [9], 0, 9)}, 10),
    "a gap": ({"a": entry("U8", [1], 0, 1), "b": entry("U8", [1], 2, 3)}, 3),
    "an overlap": ({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)}, 3),
    "metadata no strings": ({"__metadata__": {"a": 1}}, 0),
    "metadata a list": ({"__metadata__": ["a"]}, 0),
    "header a list": ([], 0),
    "header a list inside": (b'{"a"}', 0),
    "no UTF-8": (b'{"\xff":{}}', 0),
    "half a surrogate pair": (
        b'{"\\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        1,
    ),
    "no JSON": (b"{{", 0),
    "cut off": (b'{"a":', 0),
    "nothing after the brace": (b"{", 0),
    "a blank first": (b" {}", 0),
    "nested": (b'{"a":' + b"[" * 200_000, 0),
    "a number of 5,000 digits": (
        b'{"a":{"dtype":"U8","shape":[' + b"9" * 5_000 + b'],"data_offsets":[0,1]}}',
        1,
    ),
}


@pytest.mark.parametrize("what", BAD_HEADERS)
def test_refuses_what_safetensors_refuses(tmp_path: Path, what: str) -> None:
    package = pytest.importorskip("safetensors")
    header, data_bytes = BAD_HEADERS[what]
    path = write(tmp_path, "bad.safetensors", header, data_bytes)
    refusal(path)
    if what != "a blank first":  # only said by the format's text
        with pytest.raises(package.SafetensorError):
            package.deserialize(path.read_bytes())


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    one = b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    path = write(tmp_path, "twice.safetensors", b"{" + one + b"," + one + b"}", 1)
    assert refusal(path).endswith('twice.safetensors: the header names "a" twice')


# Lengths and messages.


def test_no_length_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "long.safetensors"
    path.write_bytes(packed({}, 0, length=2**63 - 1))
    assert refusal(path).endswith(
        "long.safetensors: the header has a length of 9,223,372,036,854,775,807,"
        " past the end of the file (10 bytes)"
    )
    for size in range(10):
        path.write_bytes(packed({})[:size])
        refusal(path)


def test_a_long_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "big.safetensors"
    path.write_bytes((100_000_001).to_bytes(8, "little") + b"{")
    os.truncate(path, 200_000_000)
    tracemalloc.start()
    assert "the format allows 2 to 100,000,000" in refusal(path)
    # Within the limit, but zeros: the first byte unmasks it.
    path.write_bytes((99_000_000).to_bytes(8, "little"))
    os.truncate(path, 200_000_000)
    assert "begins with" in refusal(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_nothing_raw_reaches_a_message(tmp_path: Path) -> None:
    name = "\x1b[31mred\n\u202e" + "x" * 500
    path = write(tmp_path, "esc.safetensors", {name: entry("\x1b]0;", [1], 0, 1)}, 1)
    message = refusal(path)
    assert "\\x1b[31mred\\n" in message
    assert len(message) < 400
    refusal(tmp_path / "\x1b[2J.safetensors")


def test_what_is_no_file(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "missing.safetensors")
    assert "not a regular file" in refusal(tmp_path)
    refusal("zero\0byte.safetensors")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.safetensors")
        assert "not a regular file" in refusal(tmp_path / "pipe.safetensors")


def test_a_pointer_file_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "lfs.safetensors"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    refusal(path)


def test_a_header_fetched_by_range() -> None:
    header = json.dumps({"a": entry("BF16", [2, 3], 0, 12)}).encode()
    found = parse_header(header, len(header), 8 + len(header) + 12, "hf:org/model/x.safetensors")
    assert (found.parameters, found.stored_bytes, found.shards) == (6, 12, ())
    for length, size in ((len(header) + 1, 1_000), (len(header), len(header)), (len(header), 999)):
        with pytest.raises(KvcalcError, match=r"^hf:org/model/x\.safetensors: "):
            parse_header(header, length, size, "hf:org/model/x.safetensors")


# The index and folders.


def index_of(shards: dict[str, str], **metadata: object) -> dict[str, object]:
    return {"metadata": metadata, "weight_map": shards}


def test_index(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(
        json.dumps(index_of({"b": "z.safetensors", "a": "y.safetensors", "c": "z.safetensors"},
                            total_size=123.0))
    )  # fmt: skip
    found = read_index(path)
    assert found.shards == ("y.safetensors", "z.safetensors")
    assert (found.tensors, found.total_bytes) == (3, 123)
    assert found.bytes_read == path.stat().st_size
    assert parse_index(b'{"weight_map":{"a":"x.safetensors"}}', "i").total_bytes is None


@pytest.mark.parametrize(
    "name",
    [
        "../x.safetensors",
        "/etc/x.safetensors",
        "a/../../x.safetensors",
        "..\\x.safetensors",
        "C:x.safetensors",
        "a//x.safetensors",
        "a/./x.safetensors",
        "x\0.safetensors",
        "passwd",
        "",
    ],
)
def test_a_shard_cannot_leave_the_folder(name: str) -> None:
    with pytest.raises(KvcalcError, match="weight_map names the file"):
        parse_index(json.dumps(index_of({"a": name})).encode(), "i.json")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"weight_map": {}}',
        '{"weight_map": []}',
        '{"weight_map": {"a": 1}}',
        '{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}',
        '{"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": -1}}',
        '{"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": "9"}}',
        '{"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": 1.5}}',
        '{"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": NaN}}',
        '{"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": Infinity}}',
    ],
)
def test_a_damaged_index(text: str) -> None:
    with pytest.raises(KvcalcError):
        parse_index(text.encode(), "i.json")


def shard_name(number: int, count: int) -> str:
    return f"model-{number:05d}-of-{count:05d}.safetensors"


def write_shards(folder: Path, count: int, tensors: int) -> dict[str, str]:
    """`count` shards of `tensors` bf16 matrices each, as large as real ones but all holes."""
    places = {}
    for number in range(1, count + 1):
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        for t in range(tensors):
            name = f"model.layers.{number}.mlp.experts.{t}.down_proj.weight"
            shape = [4096, 1024 + t]
            end = offset + prod(shape) * 2
            header[name] = entry("BF16", shape, offset, end)
            places[name], offset = shard_name(number, count), end
        path = write(folder, shard_name(number, count), header)
        os.truncate(path, path.stat().st_size + offset)
    return places


@pytest.mark.parametrize("with_index", [True, False])
def test_a_folder_of_shards(tmp_path: Path, *, with_index: bool) -> None:
    places = write_shards(tmp_path, 3, 2)
    if with_index:
        # With an index, files that it does not name do not count.
        write(tmp_path, "consolidated.safetensors", {"x": entry("U8", [1], 0, 1)}, 1)
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index_of(places)))
    found = read_folder(tmp_path)
    assert found.shards == tuple(shard_name(n, 3) for n in (1, 2, 3))
    assert [t.name for t in found.tensors] == list(places)
    assert found.parameters == 3 * 4096 * (1024 + 1025)
    assert found.types == {"BF16": Total(6, found.parameters, 2 * found.parameters)}
    assert found.metadata == {"format": "pt"}
    os.remove(tmp_path / shard_name(2, 3))
    with pytest.raises(KvcalcError, match=r"00002-of-00003\.safetensors: is missing"):
        read_folder(tmp_path)


def test_a_folder_with_one_file(tmp_path: Path) -> None:
    with pytest.raises(KvcalcError, match=r"holds no \.safetensors file"):
        read_folder(tmp_path)
    with pytest.raises(KvcalcError, match="cannot be listed"):
        read_folder(tmp_path / "none")
    write(tmp_path, "any.safetensors", {"x": entry("U8", [1], 0, 1)}, 1)
    assert read_folder(tmp_path).shards == ("any.safetensors",)
    write(tmp_path, "other.safetensors", {"y": entry("U8", [1], 0, 1)}, 1)
    with pytest.raises(KvcalcError, match="no index that says which belong together"):
        read_folder(tmp_path)
    write(tmp_path, "model.safetensors", {"z": entry("U8", [1], 0, 1)}, 1)
    assert [t.name for t in read_folder(tmp_path).tensors] == ["z"]


def test_one_tensor_in_two_shards(tmp_path: Path) -> None:
    for n in (1, 2):
        write(tmp_path, shard_name(n, 2), {"same": entry("U8", [1], 0, 1)}, 1)
    with pytest.raises(KvcalcError, match=r'tensor "same" stands in both .*1-of.*2-of'):
        read_folder(tmp_path)


def test_merging_headers_from_elsewhere() -> None:
    def header(name: str) -> bytes:
        return json.dumps({name: entry("U8", [1], 0, 1)}).encode()

    parts = [
        parse_header(header(n), len(header(n)), len(header(n)) + 9, n)._replace(shards=(n,))
        for n in "ab"
    ]
    merged = merge_shards(parts, "hf:org/model")
    assert (merged.shards, merged.parameters) == (("a", "b"), 2)


def test_200_shards_cost_little(tmp_path: Path) -> None:
    """Real sizes (20 GB in all) and a count of the bytes that were read."""
    places = write_shards(tmp_path, 200, 10)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps(index_of(places, total_size=1)))
    headers = sum(
        8 + int.from_bytes(_head(path), "little") for path in tmp_path.glob("*.safetensors")
    )
    tracemalloc.start()
    found = read_folder(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.bytes_read == headers + index.stat().st_size
    assert found.file_bytes == headers + found.stored_bytes > 10**10
    assert len(found.tensors) == 2_000
    assert peak < 5 * 2**20
    seconds = min(_timed(tmp_path) for _ in range(3))
    # 25 bare interpreter starts are about 0.25 s; this takes a tenth of that.
    assert seconds < 0.25


def _head(path: Path) -> bytes:
    with path.open("rb") as handle:
        return handle.read(8)


def _timed(folder: Path) -> float:
    begin = time.perf_counter()
    read_folder(folder)
    return time.perf_counter() - begin
