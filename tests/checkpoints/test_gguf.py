"""GGUF headers: what the gguf package writes and reads, and hand-made damage."""

from __future__ import annotations

import json
import os
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kvcalc.checkpoints.bounded import Total
from kvcalc.checkpoints.cursor import WINDOW_BYTES
from kvcalc.checkpoints.gguf import Skipped, read_gguf
from kvcalc.core.errors import KvcalcError
from kvcalc.core.gguf_types import BY_ID

U32, STRING, ARRAY, BOOL = 4, 8, 9, 7


# A small writer of our own, for what the gguf package would never write.


def text(value: str | bytes, order: str = "<") -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(order + "Q", len(raw)) + raw


def key(name: str | bytes, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def u32(name: str, value: int) -> bytes:
    return key(name, U32, struct.pack("<I", value))


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    head = text(name) + struct.pack("<I", len(shape))
    return head + struct.pack(f"<{len(shape)}QIQ", *shape, kind, offset)


ARCHITECTURE = key("general.architecture", STRING, text("llama"))


def gguf_bytes(
    *keys: bytes,
    tensors: tuple[bytes, ...] = (),
    data: int = 0,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    found = counts or (len(tensors), len(keys) + 1)
    body = b"GGUF" + struct.pack("<IQQ", version, *found) + ARCHITECTURE
    body += b"".join(keys) + b"".join(tensors)
    return body + bytes(-len(body) % 32 + data) if data else body


def write(folder: Path, raw: bytes, name: str = "m.gguf") -> Path:
    path = folder / name
    path.write_bytes(raw)
    return path


def refusal(path: Path | str) -> str:
    """The message of the refusal, which is one clean line with a hint."""
    with pytest.raises(KvcalcError) as caught:
        read_gguf(path)
    assert caught.value.code == "unreadable_input"
    assert caught.value.message.isprintable()
    assert caught.value.hint
    return caught.value.message


# The gguf package as the oracle.


def real_writer(path: Path, **options: Any) -> Any:
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "gemma3", **options)
    writer.add_name("Grüße")
    writer.add_block_count(3)
    writer.add_head_count([8, 8, 4])
    writer.add_head_count_kv([2, 0, 1])
    writer.add_array("gemma3.attention.sliding_window_pattern", [True, True, False])
    writer.add_rope_freq_base(1e6)
    writer.add_bool("gemma3.use_it", True)
    writer.add_uint64("gemma3.big", 2**63 + 1)
    writer.add_int8("gemma3.small", -7)
    writer.add_float64("gemma3.double", 0.1)
    writer.add_tags(["text-generation", "de"])
    writer.add_chat_template("x" * 5_000)
    writer.add_token_list([f"<{n}>" for n in range(1_000)])
    writer.add_token_scores([0.5] * 1_000)
    writer.add_token_types([1] * 1_000)
    return writer


def add_tensors(writer: Any) -> dict[str, tuple[tuple[int, ...], str, int]]:
    """Some tensors; by name the shape as ggml has it, the type, the bytes."""
    numpy, gguf = pytest.importorskip("numpy"), pytest.importorskip("gguf")
    writer.add_tensor("norm", numpy.zeros((48,), numpy.float32))
    writer.add_tensor("embed", numpy.zeros((5, 48), numpy.float16))
    quantised = gguf.quants.quantize(numpy.zeros((3, 64), numpy.float32), 8)
    writer.add_tensor("q8", quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    raw = numpy.zeros((2, 2, 144), numpy.uint8)
    writer.add_tensor("q4k", raw, raw_dtype=gguf.GGMLQuantizationType.Q4_K)
    return {
        "norm": ((48,), "F32", 48 * 4),
        "embed": ((48, 5), "F16", 240 * 2),
        "q8": ((64, 3), "Q8_0", 6 * 34),
        "q4k": ((256, 2, 2), "Q4_K", 4 * 144),
    }


def finish(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("order", ["little", "big"])
def test_equals_what_gguf_reads(tmp_path: Path, order: str) -> None:
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "real.gguf"
    endian = gguf.GGUFEndian.BIG if order == "big" else gguf.GGUFEndian.LITTLE
    writer = real_writer(path, endianess=endian)
    expected = add_tensors(writer)
    finish(writer)
    found = read_gguf(path)
    theirs = gguf.GGUFReader(path)
    assert (found.version, found.byte_order, found.architecture) == (3, order, "gemma3")
    assert {t.name: (t.shape, t.type, t.stored_bytes) for t in found.tensors} == expected
    for mine, other in zip(found.tensors, theirs.tensors, strict=True):
        assert mine.name == other.name
        assert mine.shape == tuple(int(n) for n in other.shape)
        assert mine.type == other.tensor_type.name
        assert (mine.elements, mine.stored_bytes) == (other.n_elements, other.n_bytes)
    names = [name for name in theirs.fields if not name.startswith("GGUF.")]
    assert list(found.metadata) == names
    for name, value in found.metadata.items():
        contents = theirs.fields[name].contents()
        if isinstance(value, Skipped):
            assert value.length == len(contents)
        else:
            assert value == (tuple(contents) if isinstance(contents, list) else contents)
            assert type(value) is type(contents) or isinstance(contents, list)
    assert found.metadata["tokenizer.ggml.tokens"] == Skipped("string", 1_000, array=True)
    assert found.metadata["tokenizer.ggml.scores"] == Skipped("float32", 1_000, array=True)
    assert found.metadata["tokenizer.chat_template"] == Skipped("string", 5_000, array=False)
    assert found.metadata["gemma3.attention.sliding_window_pattern"] == (True, True, False)
    assert found.metadata["gemma3.attention.head_count_kv"] == (2, 0, 1)
    assert found.types["Q8_0"] == Total(tensors=1, elements=192, stored_bytes=204)
    assert found.parameters == 48 + 240 + 192 + 1_024
    assert found.stored_bytes == sum(bytes_ for _, _, bytes_ in expected.values())
    assert found.file_bytes == path.stat().st_size
    assert (found.alignment, found.parts) == (theirs.alignment, ("real.gguf",))


def test_custom_alignment(tmp_path: Path) -> None:
    path = tmp_path / "aligned.gguf"
    writer = real_writer(path)
    writer.add_custom_alignment(1024)
    add_tensors(writer)
    finish(writer)
    assert read_gguf(path).alignment == 1024


def test_type_table_equals_the_package() -> None:
    gguf = pytest.importorskip("gguf")
    for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
        if kind.name == "Q8_1":
            # gguf up to 0.19 says 40, from a time of two fp32 scales: ggml's block has two fp16,
            # 36 bytes, as the oracle below says. No file stores this type.
            continue
        # An older package lacks the newest types; it has none that we lack.
        ours = BY_ID[int(kind)]
        assert (ours.name, ours.block_elements, ours.block_bytes) == (kind.name, elements, size)


def test_type_table_equals_the_oracle() -> None:
    places = (Path(__file__).parents[3] / "shared" / "oracles",)
    found = [place / "ggml_type.jsonl" for place in places if place.is_dir()]
    found = [path for path in found if path.exists()]
    if not found:
        pytest.skip("no ggml_type.jsonl")
    rows = [json.loads(line) for line in found[0].read_text().splitlines()]
    assert {t.id: (t.name, t.block_elements, t.block_bytes) for t in BY_ID.values()} == {
        row["id"]: (row["name"], row["block_size"], row["type_size"]) for row in rows
    }


# Split models.


def split_model(folder: Path) -> list[Path]:
    writer = real_writer(folder / "big.gguf", split_max_tensors=2)
    add_tensors(writer)
    finish(writer)
    return sorted(folder.glob("big-*.gguf"))


def test_split_files(tmp_path: Path) -> None:
    parts = split_model(tmp_path)
    assert len(parts) == 2
    whole = read_gguf(parts[0])
    assert whole.parts == ("big-00001-of-00002.gguf", "big-00002-of-00002.gguf")
    assert [t.name for t in whole.tensors] == ["norm", "embed", "q8", "q4k"]
    assert whole.metadata["split.count"] == 2
    assert whole.file_bytes == sum(path.stat().st_size for path in parts)
    # Any part stands for the whole.
    assert read_gguf(parts[1]) == whole
    parts[0].rename(tmp_path / "x.gguf")
    message = refusal(parts[1])
    assert message.endswith(
        "big-00001-of-00002.gguf: is missing; big-00002-of-00002.gguf is one of 2 parts"
    )
    assert 'does not end in "-00001-of-00002.gguf"' in refusal(tmp_path / "x.gguf")


def part(number: int, count: int, name: str, total: int = 2) -> bytes:
    keys = (
        key("split.no", 2, struct.pack("<H", number)),
        key("split.count", 2, struct.pack("<H", count)),
        key("split.tensors.count", 5, struct.pack("<i", total)),
    )
    return gguf_bytes(*keys, tensors=(tensor(name, (4,), 0, 0),), data=16)


def test_parts_that_do_not_belong_together(tmp_path: Path) -> None:
    first = write(tmp_path, part(0, 2, "a"), "m-00001-of-00002.gguf")
    write(tmp_path, part(1, 2, "b"), "m-00002-of-00002.gguf")
    assert len(read_gguf(first).tensors) == 2
    write(tmp_path, part(0, 2, "b"), "m-00002-of-00002.gguf")
    assert "says split.no 0 of 2, expected 1 of 2" in refusal(first)
    write(tmp_path, part(1, 3, "b"), "m-00002-of-00002.gguf")
    assert "says split.no 1 of 3, expected 1 of 2" in refusal(first)
    write(tmp_path, part(1, 2, "a"), "m-00002-of-00002.gguf")
    assert 'tensor "a" stands in two parts' in refusal(first)
    write(tmp_path, part(0, 2, "a", total=3), first.name)
    write(tmp_path, part(1, 2, "b"), "m-00002-of-00002.gguf")
    assert "hold 2 tensors, split.tensors.count is 3" in refusal(first)
    write(tmp_path, part(2, 2, "a"), first.name)
    assert "contradict" in refusal(first)
    endless = gguf_bytes(key("split.count", 10, struct.pack("<Q", 2**60)))
    assert "contradict" in refusal(write(tmp_path, endless, f"m-00001-of-{2**60}.gguf"))
    # What merging leaves behind.
    assert read_gguf(write(tmp_path, part(0, 0, "a", total=0))).parts == ("m.gguf",)


# Damage.

LONG = struct.pack("<Q", 2**63 - 1)
ONE = (tensor("t", (4,), 0, 0),)
DAMAGE: dict[str, tuple[bytes, str]] = {
    "another file": (b"PK\3\4" + bytes(99), r'begins with "PK\x03\x04", not with "GGUF"'),
    "empty": (b"", "the header runs past the end of the file (0 bytes)"),
    "cut off in the counts": (gguf_bytes()[:13], "runs past the end of the file (13 bytes)"),
    "version 1": (gguf_bytes(version=1), "GGUF version 1; versions 2 and 3 are known"),
    "version 4": (gguf_bytes(version=4), "GGUF version 4;"),
    "key count": (gguf_bytes(counts=(0, 2**63)), "claims 9,223,372,036,854,775,808 metadata keys"),
    "tensor count": (gguf_bytes(counts=(2**64 - 1, 1)), "18,446,744,073,709,551,615 tensors, past"),
    "key length": (
        gguf_bytes(LONG + b"x" * 20),
        "metadata key 2 has a length of 9,223,372,036,854,775,807, past the end of the file",
    ),
    "string length": (gguf_bytes(key("a", STRING, LONG)), 'metadata key "a" has a length of 9,22'),
    "array length": (
        gguf_bytes(key("a", ARRAY, struct.pack("<I", U32) + LONG)),
        "has a length of 9,223,372,036,854,775,807, past",
    ),
    "string array length": (
        gguf_bytes(key("a", ARRAY, struct.pack("<I", STRING) + LONG)),
        "claims 9,223,372,036,854,775,807 strings, past",
    ),
    "string in an array": (
        gguf_bytes(key("a", ARRAY, struct.pack("<IQ", STRING, 2) + text("ok") + LONG)),
        "has string 2 of 2 running past the end",
    ),
    "string array cut off": (
        gguf_bytes(key("a", ARRAY, struct.pack("<IQ", STRING, 2) + text("0123456789"))),
        "runs past the end",
    ),
    "array of arrays": (
        gguf_bytes(key("a", ARRAY, struct.pack("<IQ", ARRAY, 0))),
        "is an array of arrays",
    ),
    "value type": (gguf_bytes(key("a", 13, bytes(8))), "value type 13, which GGUF does not"),
    "array value type": (
        gguf_bytes(key("a", ARRAY, struct.pack("<IQ", 99, 0))),
        "value type 99, which",
    ),
    "bool": (gguf_bytes(key("a", BOOL, b"\2")), 'metadata key "a" is a bool, but neither 0 nor 1'),
    "key twice": (gguf_bytes(u32("a", 1), u32("a", 1)), 'metadata key "a" stands twice'),
    "key without name": (gguf_bytes(u32("", 1) + b" "), "metadata key 2 has a name of 0 bytes"),
    "key of 2,000 bytes": (gguf_bytes(u32("k" * 2_000, 1)), "has a name of 2,000 bytes"),
    "key no UTF-8": (gguf_bytes(key(b"\xff", U32, bytes(4))), "has a name that is not UTF-8"),
    "ESC in a key": (
        gguf_bytes(key("\x1b[31m\n", BOOL, b"\2")),
        r'metadata key "\x1b[31m\n" is a bool',
    ),
    "alignment 0": (gguf_bytes(u32("general.alignment", 0)), "is 0, expected a power of two"),
    "alignment 33": (gguf_bytes(u32("general.alignment", 33)), "is 33, expected a power of two"),
    "alignment true": (gguf_bytes(key("general.alignment", BOOL, b"\1")), "is True, expected"),
    "tensor name length": (
        gguf_bytes(tensors=(LONG + bytes(30),)),
        "tensor 1 has a length of 9,223,372,036,854,775,807, past",
    ),
    "tensor twice": (gguf_bytes(tensors=ONE + ONE, data=64), 'tensor "t" stands twice'),
    "dimensions": (
        gguf_bytes(tensors=(tensor("t", (1,) * 5, 0, 0),)),
        "has 5 dimensions, ggml knows 4",
    ),
    "removed type": (gguf_bytes(tensors=(tensor("t", (32,), 4, 0),), data=64), "the ggml type 4,"),
    "half a block": (
        gguf_bytes(tensors=(tensor("t", (48,), 8, 0),), data=64),
        "has rows of 48 elements, not whole Q8_0 blocks of 32",
    ),
    "unaligned": (
        gguf_bytes(tensors=(tensor("t", (4,), 0, 8),), data=64),
        'tensor "t" has offset 8, no multiple of 32',
    ),
    "overlap": (
        gguf_bytes(tensors=(tensor("a", (9,), 0, 0), tensor("b", (9,), 0, 32)), data=68),
        'tensor "b" overlaps the tensor before it',
    ),
    "cut off data": (gguf_bytes(tensors=ONE, data=15), "past the end of the file (143 bytes)"),
    "no data": (gguf_bytes(tensors=ONE), "past the end of the file"),
    "endless tensor": (
        gguf_bytes(tensors=(tensor("t", (2**63, 2**63, 2**63, 2**63), 0, 0),), data=64),
        'tensor "t" ends at byte',
    ),
    "endless offset": (
        gguf_bytes(tensors=(tensor("t", (4,), 0, 2**64 - 32),), data=64),
        'tensor "t" ends at byte',
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named(tmp_path: Path, what: str) -> None:
    raw, words = DAMAGE[what]
    message = refusal(write(tmp_path, raw))
    assert "m.gguf: " in message
    assert words in message


def test_no_architecture(tmp_path: Path) -> None:
    raw = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + u32("a", 1)
    assert "no general.architecture" in refusal(write(tmp_path, raw))
    raw = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + u32("general.architecture", 1)
    assert "no general.architecture" in refusal(write(tmp_path, raw))


def test_version_2_and_no_tensors(tmp_path: Path) -> None:
    found = read_gguf(write(tmp_path, gguf_bytes(version=2)))
    assert (found.version, found.tensors, found.parameters, found.alignment) == (2, (), 0, 32)


def test_every_cut_is_refused(tmp_path: Path) -> None:
    """Whatever the length at which a download ended, the file is refused, never misread."""
    path = tmp_path / "cut.gguf"
    raw = gguf_bytes(
        u32("llama.block_count", 2),
        key("a", ARRAY, struct.pack("<IQ", STRING, 2) + text("one") + text("two")),
        key("b", ARRAY, struct.pack("<IQ3I", U32, 3, 1, 2, 3)),
        tensors=ONE,
        data=16,
    )
    for size in range(len(raw)):
        path.write_bytes(raw[:size])
        refusal(path)
    path.write_bytes(raw)
    assert read_gguf(path).metadata["b"] == (1, 2, 3)


def test_too_many_kept_numbers(tmp_path: Path) -> None:
    array = struct.pack("<IQ", 0, 4_096) + bytes(4_096)
    arrays = [key(f"a{n}", ARRAY, array) for n in range(65)]
    assert "brings the array elements to over 262,144" in refusal(
        write(tmp_path, gguf_bytes(*arrays))
    )
    longer = key("a", ARRAY, struct.pack("<IQ", 0, 4_097) + bytes(4_097))
    found = read_gguf(write(tmp_path, gguf_bytes(longer)))
    assert found.metadata["a"] == Skipped("uint8", 4_097, array=True)


def test_what_is_no_file(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "none.gguf")
    assert "not a regular file" in refusal(tmp_path)


# Cost.


def vocabulary_key(tokens: int) -> bytes:
    body = b"".join(text(f"token{n:06d}"[-(n % 11 + 1) :]) for n in range(tokens))
    return key("tokenizer.ggml.tokens", ARRAY, struct.pack("<IQ", STRING, tokens) + body)


def merges_key(tokens: int) -> bytes:
    body = b"".join(text(f"Ġ{n} {n}") for n in range(tokens))
    return key("tokenizer.ggml.merges", ARRAY, struct.pack("<IQ", STRING, tokens) + body)


def scores_key(tokens: int) -> bytes:
    head = struct.pack("<IQ", 6, tokens)
    return key("tokenizer.ggml.scores", ARRAY, head + bytes(4 * tokens))


def test_ten_gigabytes_cost_a_header(tmp_path: Path) -> None:
    """A sparse file of 10 GB with a real vocabulary: bytes read, memory and time stay small."""
    rows = 10_000_000_000 // (4_096 * 2)
    raw = gguf_bytes(
        vocabulary_key(250_000),
        merges_key(250_000),
        scores_key(250_000),
        tensors=(tensor("output.weight", (4_096, rows), 1, 0),),
        data=32,
    )
    path = write(tmp_path, raw, "huge.gguf")
    header = len(raw) - 32
    os.truncate(path, header + rows * 4_096 * 2)
    tracemalloc.start()
    found = read_gguf(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.parameters == rows * 4_096
    assert found.file_bytes > 9_999_000_000
    # The scores are stepped over; each window may begin where the last one ended.
    assert header - 4 * 250_000 - WINDOW_BYTES < found.bytes_read < header + WINDOW_BYTES
    assert peak < 2 * 2**20
    assert min(_timed(path) for _ in range(3)) < 0.25


def test_a_huge_claim_in_a_huge_file_ends(tmp_path: Path) -> None:
    """Lengths that a 10 GB file of zeros could hold: refused before much is read."""
    for claim in (
        key("a", ARRAY, struct.pack("<IQ", STRING, 10**9)),
        key("a", ARRAY, struct.pack("<IQ", 0, 9 * 10**9)),
        key("a", STRING, struct.pack("<Q", 9 * 10**9)),
        struct.pack("<Q", 9 * 10**9),
    ):
        path = write(tmp_path, gguf_bytes(claim))
        os.truncate(path, 10**10)
        assert "past the 100,000,000 bytes that a header may take" in refusal(path)
    path = write(tmp_path, gguf_bytes(counts=(10**6, 1)))
    os.truncate(path, 10**10)
    assert "claims 1,000,000 tensors, more than the 131,072" in refusal(path)
    # 12 million empty strings: allowed, and about a second of walking.
    path = write(tmp_path, gguf_bytes(key("a", ARRAY, struct.pack("<IQ", STRING, 12_000_000))))
    os.truncate(path, 10**10)
    assert read_gguf(path).metadata["a"] == Skipped("string", 12_000_000, array=True)


def _timed(path: Path) -> float:
    begin = time.perf_counter()
    read_gguf(path)
    return time.perf_counter() - begin
