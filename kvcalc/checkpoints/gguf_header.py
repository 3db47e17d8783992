"""The header of one GGUF file: metadata and tensor shapes, every number checked before use."""

from __future__ import annotations

import math
import os
from typing import NamedTuple, TypeAlias

from kvcalc.checkpoints.bounded import opened
from kvcalc.checkpoints.cursor import Cursor
from kvcalc.core.gguf_types import BY_ID
from kvcalc.core.units import shown

#: Ends of what a model has, several times over; a file beyond them is damaged or hostile.
MAX_KEYS, MAX_TENSORS = 16_384, 131_072
MAX_KEY_BYTES, MAX_TENSOR_NAME_BYTES = 1_024, 255
#: Longer strings (chat templates, licences) and arrays (vocabularies) are stepped over. The
#: longest array that shapes a cache has an entry a layer.
MAX_STRING_BYTES, MAX_ARRAY, MAX_ARRAY_SUM = 1_024, 4_096, 262_144
MAX_DIMENSIONS = 4

_STRING, _ARRAY, _BOOL = 8, 9, 7
#: Value types by their id in the file: name, struct code, bytes.
_NUMBERS = {
    0: ("uint8", "B", 1), 1: ("int8", "b", 1), 2: ("uint16", "H", 2), 3: ("int16", "h", 2),
    4: ("uint32", "I", 4), 5: ("int32", "i", 4), 6: ("float32", "f", 4), 7: ("bool", "B", 1),
    10: ("uint64", "Q", 8), 11: ("int64", "q", 8), 12: ("float64", "d", 8),
}  # fmt: skip


class Skipped(NamedTuple):
    """A value that was stepped over: its element type, and how many elements (bytes of a string).

    `array` tells an array of strings from one long string.
    """

    type: str
    length: int
    array: bool


Number: TypeAlias = int | float
Value: TypeAlias = Number | str | tuple[Number, ...] | Skipped


class GgufTensor(NamedTuple):
    """One tensor. `shape` is in ggml's order: the first dimension is the contiguous row."""

    name: str
    type: str
    shape: tuple[int, ...]
    elements: int
    stored_bytes: int


class GgufPart(NamedTuple):
    """The header of one file; `bytes_read` is what was fetched from the disk."""

    version: int
    byte_order: str
    metadata: dict[str, Value]
    tensors: tuple[GgufTensor, ...]
    alignment: int
    file_bytes: int
    bytes_read: int


def read_part(path: str | os.PathLike[str]) -> GgufPart:
    """Read the header of one file, without looking for the other parts of a split model.

    Raises:
        KvcalcError: "unreadable_input" if it is missing, damaged, cut off, or of another type or
            version.
    """
    with opened(path) as file:
        cursor = Cursor(file)
        version = _read_version(cursor)
        tensor_count, key_count = cursor.numbers("QQ")
        # The least a key takes: length and one byte of name, type, one byte of value. A tensor:
        # length and one byte of name, number of dimensions, type, offset.
        _check_count(cursor, key_count, MAX_KEYS, 14, "metadata keys")
        _check_count(cursor, tensor_count, MAX_TENSORS, 25, "tensors")
        metadata = _read_metadata(cursor, key_count)
        alignment = _alignment(cursor, metadata)
        tensors, offsets = _read_tensors(cursor, tensor_count)
        start = -(-cursor.position // alignment) * alignment
        _check_offsets(cursor, tensors, offsets, (start, file.size), alignment)
    order = "little" if cursor.order == "<" else "big"
    return GgufPart(
        version, order, metadata, tuple(tensors), alignment, file.size, cursor.bytes_read
    )


def _read_version(cursor: Cursor) -> int:
    magic = cursor.take(4)
    if magic != b"GGUF":
        raise cursor.error(
            f'begins with "{shown(magic.decode("latin-1"))}", not with "GGUF"',
            "name a GGUF file; a Git LFS pointer must be fetched first (git lfs pull)",
        )
    raw = cursor.take(4)
    # Versions are small: read in the wrong order, their low half is zero.
    cursor.order = ">" if raw[:2] == b"\0\0" else "<"
    version = int.from_bytes(raw, "big" if cursor.order == ">" else "little")
    if version not in (2, 3):
        raise cursor.error(
            f"says GGUF version {version:,}; versions 2 and 3 are known",
            "convert the model again with a current llama.cpp",
        )
    return version


def _check_count(cursor: Cursor, count: int, most: int, least_bytes: int, what: str) -> None:
    cursor.check(count * least_bytes, f"claims {count:,} {what},")
    if count > most:
        raise cursor.error(f"claims {count:,} {what}, more than the {most:,} kvcalc reads")


def _read_metadata(cursor: Cursor, count: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    kept = 0
    for index in range(1, count + 1):
        cursor.place = ("metadata key", index)
        key = cursor.name(MAX_KEY_BYTES)
        cursor.place = ("metadata key", key)
        if key in metadata:
            raise cursor.error("stands twice")
        (kind,) = cursor.numbers("I")
        value = _read_value(cursor, kind, keep=not key.startswith("tokenizer."))
        if isinstance(value, tuple) and not isinstance(value, Skipped):
            kept += len(value)
            if kept > MAX_ARRAY_SUM:
                raise cursor.error(f"brings the array elements to over {MAX_ARRAY_SUM:,}")
        metadata[key] = value
    return metadata


def _read_value(cursor: Cursor, kind: int, *, keep: bool) -> Value:
    if kind == _STRING:
        length = cursor.length()
        if length > MAX_STRING_BYTES:
            cursor.skip(length)
            return Skipped("string", length, array=False)
        return cursor.take(length).decode(errors="replace")
    if kind == _ARRAY:
        return _read_array(cursor, keep=keep)
    return _read_numbers(cursor, kind, 1)[0]


def _read_array(cursor: Cursor, *, keep: bool) -> Value:
    kind, length = cursor.numbers("IQ")
    if kind == _STRING:
        cursor.skip_strings(length)
        return Skipped("string", length, array=True)
    if kind == _ARRAY:
        raise cursor.error("is an array of arrays, which no known model has")
    if keep and length <= MAX_ARRAY:
        return _read_numbers(cursor, kind, length)
    name, _, size = _number_type(cursor, kind)
    cursor.check(length * size, f"has a length of {length:,},")
    cursor.skip(length * size)
    return Skipped(name, length, array=True)


def _read_numbers(cursor: Cursor, kind: int, count: int) -> tuple[Number, ...]:
    _, code, size = _number_type(cursor, kind)
    cursor.check(count * size, f"has a length of {count:,},")
    values: tuple[Number, ...] = cursor.numbers(f"{count}{code}")
    if kind != _BOOL:
        return values
    if any(value > 1 for value in values):
        raise cursor.error("is a bool, but neither 0 nor 1")
    return tuple(value == 1 for value in values)


def _number_type(cursor: Cursor, kind: int) -> tuple[str, str, int]:
    if kind not in _NUMBERS:
        raise cursor.error(f"has the value type {kind:,}, which GGUF does not define")
    return _NUMBERS[kind]


def _alignment(cursor: Cursor, metadata: dict[str, Value]) -> int:
    """Tensor data begins at multiples of as many bytes: 32 where the file does not say."""
    value = metadata.get("general.alignment", 32)
    if type(value) is not int or value <= 0 or value & (value - 1):
        cursor.place = ("metadata key", "general.alignment")
        raise cursor.error(f"is {shown(value)}, expected a power of two")
    return value


def _read_tensors(cursor: Cursor, count: int) -> tuple[list[GgufTensor], list[int]]:
    """The tensors, and each one's offset in the data."""
    tensors, offsets = [], []
    names: set[str] = set()
    for index in range(1, count + 1):
        cursor.place = ("tensor", index)
        name = cursor.name(MAX_TENSOR_NAME_BYTES)
        cursor.place = ("tensor", name)
        if name in names:
            raise cursor.error("stands twice")
        names.add(name)
        (dimensions,) = cursor.numbers("I")
        if dimensions > MAX_DIMENSIONS:
            raise cursor.error(f"has {dimensions:,} dimensions, ggml knows {MAX_DIMENSIONS}")
        *shape, kind, offset = cursor.numbers(f"{dimensions}QIQ")
        tensors.append(_tensor(cursor, name, tuple(shape), kind))
        offsets.append(offset)
    return tensors, offsets


def _tensor(cursor: Cursor, name: str, shape: tuple[int, ...], kind: int) -> GgufTensor:
    if kind not in BY_ID:
        raise cursor.error(
            f"has the ggml type {kind:,}, which kvcalc does not know",
            "nothing is guessed; convert the model again with a current llama.cpp",
        )
    ggml = BY_ID[kind]
    row = shape[0] if shape else 1
    if row % ggml.block_elements:
        raise cursor.error(
            f"has rows of {row:,} elements, not whole {ggml.name} blocks of {ggml.block_elements}"
        )
    elements = math.prod(shape)
    stored_bytes = elements // ggml.block_elements * ggml.block_bytes
    return GgufTensor(name, ggml.name, shape, elements, stored_bytes)


def _check_offsets(
    cursor: Cursor,
    tensors: list[GgufTensor],
    offsets: list[int],
    span: tuple[int, int],
    alignment: int,
) -> None:
    """Every tensor lies aligned, apart from the others, and in the span of file bytes for data."""
    start, size = span
    end = 0
    for offset, tensor in sorted(zip(offsets, tensors, strict=True), key=lambda pair: pair[0]):
        cursor.place = ("tensor", tensor.name)
        if offset % alignment:
            raise cursor.error(f"has offset {offset:,}, no multiple of {alignment:,}")
        if offset < end:
            raise cursor.error("overlaps the tensor before it")
        end = offset + tensor.stored_bytes
        if start + end > size:
            raise cursor.error(
                f"ends at byte {start + end:,}, past the end of the file ({size:,} bytes)"
            )
