"""The header of one safetensors file: names, dtypes and shapes of its tensors.

Tensor data is never read. A header is accepted where the format accepts it: the tensors fill the
file without gaps or overlaps, each as long as its dtype and shape say.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple

from kvcalc.checkpoints.bounded import (
    AGAIN,
    MAX_HEADER_BYTES,
    Total,
    broken,
    check_text,
    json_object,
    opened,
)
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: Bits of an element, for every dtype of the format.
DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
MAX_DIMENSIONS = 32
_MAX_DIMENSION = 2**63


class SafeTensor(NamedTuple):
    """One tensor: its bytes in the file are elements × bits / 8, without any rounding."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    stored_bytes: int

    @property
    def elements(self) -> int:
        """The product of the shape, which the bytes tell exactly: one number less to keep."""
        return self.stored_bytes * 8 // DTYPE_BITS[self.dtype]


class Safetensors(NamedTuple):
    """The header of one file, or of all shards of a folder together.

    `types` sums tensors, elements and bytes by dtype. Of shards that disagree, `metadata` keeps
    the first's word. `shards` are file names in order; `file_bytes` and `bytes_read` are sums.
    """

    tensors: tuple[SafeTensor, ...]
    types: dict[str, Total]
    metadata: dict[str, str]
    shards: tuple[str, ...]
    file_bytes: int
    bytes_read: int

    @property
    def parameters(self) -> int:
        """Elements of all tensors: what packs several weights into one element counts once."""
        return sum(total.elements for total in self.types.values())

    @property
    def stored_bytes(self) -> int:
        """Bytes of all tensors, without headers."""
        return sum(total.stored_bytes for total in self.types.values())


def read_safetensors(path: str | os.PathLike[str]) -> Safetensors:
    """Read the header of one .safetensors file.

    Raises:
        KvcalcError: "unreadable_input" if it is missing, damaged, cut off, or has a dtype that
            kvcalc does not know.
    """
    with opened(path) as (handle, size, where):
        first = handle.read(9) or b""
        length = header_length(first, size, where)
        # The first byte of the JSON unmasks most foreign files before more is read.
        _check_begin(first[8:], where)
        handle.seek(8)
        found = parse_header(handle.read(length) or b"", length, size, where)
    return found._replace(shards=(os.path.basename(os.fspath(path)),))


def header_length(first_bytes: bytes, file_size: int, where: str) -> int:
    """Bytes of the JSON that follows the first 8 bytes of a file of `file_size` bytes.

    Raises:
        KvcalcError: "unreadable_input" if the header would not fit into the file or the format.
    """
    if len(first_bytes) < 8:
        raise broken(where, f"is cut off: {file_size:,} bytes, a header takes at least 10")
    length = int.from_bytes(first_bytes[:8], "little")
    if length > file_size - 8:
        raise broken(
            where,
            f"the header has a length of {length:,}, past the end of the file"
            f" ({file_size:,} bytes)",
        )
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise broken(
            where,
            f"the header has a length of {length:,}, the format allows 2 to {MAX_HEADER_BYTES:,}",
        )
    return length


def parse_header(
    header_json_bytes: bytes, header_length: int, file_size: int, where: str
) -> Safetensors:
    """Check a header against the size of its file; `where` names the file in messages.

    The result has no `shards`; its `bytes_read` is the length field and the header.

    Raises:
        KvcalcError: "unreadable_input" if the header is damaged or does not fit the file.
    """
    if len(header_json_bytes) != header_length or header_length + 8 > file_size:
        raise broken(
            where,
            f"is cut off: {len(header_json_bytes):,} of {header_length:,} header bytes,"
            f" the file has {file_size:,}",
        )
    _check_begin(header_json_bytes[:1], where)
    table = json_object(header_json_bytes, where, "the header")
    metadata = _metadata(table.pop("__metadata__", None), where)
    tensors = _tensors(table, file_size - 8 - header_length, where)
    return Safetensors(
        tensors=tensors,
        types=_types(tensors),
        metadata=metadata,
        shards=(),
        file_bytes=file_size,
        bytes_read=8 + header_length,
    )


def _types(tensors: tuple[SafeTensor, ...]) -> dict[str, Total]:
    """Tensors, elements and bytes by dtype; each dtype's bytes tell its elements exactly."""
    counts: dict[str, int] = {}
    sums: dict[str, int] = {}
    for _, dtype, _, stored_bytes in tensors:
        counts[dtype] = counts.get(dtype, 0) + 1
        sums[dtype] = sums.get(dtype, 0) + stored_bytes
    return {
        dtype: Total(counts[dtype], total * 8 // DTYPE_BITS[dtype], total)
        for dtype, total in sums.items()
    }


def _metadata(found: Any, where: str) -> dict[str, str]:
    """The table of strings under __metadata__; empty where there is none."""
    if found is None:
        return {}
    if type(found) is not dict or not all(type(value) is str for value in found.values()):
        raise broken(where, "__metadata__ is not a table of strings")
    table: dict[str, str] = found
    check_text((*table, *table.values()), where, "__metadata__")
    return table


def _check_begin(begin: bytes, where: str) -> None:
    if begin != b"{":
        raise broken(
            where,
            f'the header begins with "{shown(begin.decode("latin-1"))}", not with "{{"',
            "name a safetensors file; a Git LFS pointer must be fetched first (git lfs pull)",
        )


def _tensors(table: dict[str, Any], data_bytes: int, where: str) -> tuple[SafeTensor, ...]:
    """The tensors in the order of their data, which they fill from its first byte to its last."""
    # Most tensors share their shape with many others: keep one copy of each.
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
    placed = [_tensor(name, entry, shapes, where) for name, entry in table.items()]
    placed.sort(key=lambda place: place[:2])
    expected = 0
    for begin, end, tensor in placed:
        if end > data_bytes:
            problem = f"ends at byte {end:,} of the data, which has {data_bytes:,}"
            raise _bad_tensor(where, tensor.name, problem)
        if begin != expected:
            problem = "overlaps the tensor before it" if begin < expected else "follows a gap"
            raise _bad_tensor(where, tensor.name, problem)
        expected = end
    if expected != data_bytes:
        raise broken(where, f"{data_bytes - expected:,} bytes at its end belong to no tensor")
    return tuple(tensor for _, _, tensor in placed)


def _tensor(
    name: str, entry: Any, shapes: dict[tuple[int, ...], tuple[int, ...]], where: str
) -> tuple[int, int, SafeTensor]:
    """One entry of the header: where its data begins and ends, and the tensor."""
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise _bad_tensor(where, name, "lacks its dtype, shape or data_offsets") from error
    if type(dtype) is not str or dtype not in DTYPE_BITS:
        hint = "nothing is guessed; known: " + ", ".join(DTYPE_BITS)
        raise _bad_tensor(where, name, f'has the unknown dtype "{shown(dtype)}"', hint)
    if type(shape) is not list or len(shape) > MAX_DIMENSIONS:
        raise _bad_tensor(where, name, f"has no shape of at most {MAX_DIMENSIONS} dimensions")
    elements = 1
    for size in shape:
        if type(size) is not int or not 0 <= size < _MAX_DIMENSION:
            raise _bad_tensor(where, name, f"has a dimension of {shown(size)}")
        elements *= size
    if type(begin) is not int or type(end) is not int or not 0 <= begin <= end:
        raise _bad_tensor(where, name, "has data_offsets that are no range of bytes")
    stored_bytes = end - begin
    if elements * DTYPE_BITS[dtype] != stored_bytes * 8:
        problem = f"takes {stored_bytes:,} bytes, but {dtype} and its shape make another number"
        raise _bad_tensor(where, name, problem)
    dimensions = tuple(shape)
    dimensions = shapes.setdefault(dimensions, dimensions)
    return begin, end, SafeTensor(name, sys.intern(dtype), dimensions, stored_bytes)


def _bad_tensor(where: str, name: str, problem: str, hint: str = AGAIN) -> KvcalcError:
    return broken(where, f'tensor "{shown(name)}" {problem}', hint)
