"""safetensors models: one file, or a folder's shards with the index that names them.

Only headers are read, never tensor data.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

from kvcalc.checkpoints.bounded import (
    MAX_HEADER_BYTES,
    Total,
    broken,
    check_text,
    json_object,
    label,
    opened,
    utf8,
)
from kvcalc.checkpoints.safetensors_header import (
    DTYPE_BITS,
    SafeTensor,
    Safetensors,
    header_length,
    parse_header,
    read_safetensors,
)
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

__all__ = [
    "DTYPE_BITS",
    "INDEX_NAME",
    "SafeTensor",
    "Safetensors",
    "SafetensorsIndex",
    "header_length",
    "merge_shards",
    "parse_header",
    "parse_index",
    "read_folder",
    "read_index",
    "read_safetensors",
]

ENDING = ".safetensors"
SINGLE_NAME, INDEX_NAME = "model.safetensors", "model.safetensors.index.json"


class SafetensorsIndex(NamedTuple):
    """What a model.safetensors.index.json says: its shards, sorted; its tensors; their bytes.

    `total_bytes` is the file's own `metadata.total_size`, unchecked, None where it has none.
    """

    shards: tuple[str, ...]
    tensors: int
    total_bytes: int | None
    bytes_read: int


def read_index(path: str | os.PathLike[str]) -> SafetensorsIndex:
    """Read a model.safetensors.index.json.

    Raises:
        KvcalcError: "unreadable_input" if it is missing, damaged, or names a file outside its
            folder.
    """
    with opened(path) as (handle, size, where):
        if size > MAX_HEADER_BYTES:
            raise broken(
                where, f"has {size:,} bytes, more than the {MAX_HEADER_BYTES:,} of an index"
            )
        # The bytes are gone before the table is made: an index of 90,000 tensors has 10 MB.
        text = utf8(handle.read(size) or b"", where, "the index")
    return _index(text, size, where)


def parse_index(data: bytes, where: str) -> SafetensorsIndex:
    """The index that `data` holds; `where` names it in messages.

    Raises:
        KvcalcError: "unreadable_input" as `read_index`.
    """
    return _index(utf8(data, where, "the index"), len(data), where)


def _index(text: str, size: int, where: str) -> SafetensorsIndex:
    table = json_object(text, where, "the index")
    places = table.get("weight_map")
    if type(places) is not dict or not places:
        raise broken(where, "weight_map is not a table of tensors and their files")
    if set(map(type, places.values())) != {str}:
        raise broken(where, "weight_map names something that is no file")
    check_text(places, where, "weight_map")
    shards = tuple(sorted(set(places.values())))
    for name in shards:
        _check_name(name, where)
    return SafetensorsIndex(shards, len(places), _total_bytes(table.get("metadata"), where), size)


def _check_name(name: str, where: str) -> None:
    """A shard lies in the index's folder or below it, on every system: no way leads out."""
    steps = name.split("/")
    safe = all(step.strip(". ") for step in steps) and not any(c in name for c in "\\:\0")
    if not safe or not name.endswith(ENDING):
        raise broken(
            where,
            f'weight_map names the file "{shown(name)}", expected a {ENDING} file in this folder',
            "such an index may have been made to read other files; fetch the model again",
        )


def _total_bytes(metadata: Any, where: str) -> int | None:
    """`total_size`: some writers make it a float, some leave it out."""
    found = metadata.get("total_size") if type(metadata) is dict else None
    if found is None:
        return None
    if type(found) not in (int, float) or not 0 <= found < 2**63 or found != int(found):
        raise broken(where, f"total_size is {shown(found)}, expected a whole number of bytes")
    return int(found)


def read_folder(path: str | os.PathLike[str]) -> Safetensors:
    """Read the headers of a model's folder: model.safetensors, or all shards that its index names.

    Without either, the folder may hold one .safetensors file or one complete numbered set
    (…-00001-of-00003.safetensors).

    Raises:
        KvcalcError: "unreadable_input" if there are no such files or it is unclear which belong
            together, if one is missing or damaged, or if two hold a tensor of the same name.
    """
    folder = os.fspath(path)
    names, index_bytes = _shard_names(folder)
    headers = (read_safetensors(os.path.join(folder, name)) for name in names)
    merged = merge_shards(headers, label(folder))
    return merged._replace(shards=names, bytes_read=merged.bytes_read + index_bytes)


def merge_shards(headers: Iterable[Safetensors], where: str) -> Safetensors:
    """The shards of one model as one; each header's `shards` names its file.

    Raises:
        KvcalcError: "unreadable_input" if two shards hold a tensor of the same name.
    """
    headers = list(headers)
    names: set[str] = set()
    metadata: dict[str, str] = {}
    types: dict[str, Total] = {}
    for header in headers:
        before = len(names)
        names.update(map(_name, header.tensors))
        if len(names) < before + len(header.tensors):
            raise _twin(headers, where)
        metadata = {**header.metadata, **metadata}
        for dtype, total in header.types.items():
            so_far = types.get(dtype, Total(0, 0, 0))
            types[dtype] = Total(*map(operator.add, so_far, total))
    return Safetensors(
        tensors=tuple(chain.from_iterable(header.tensors for header in headers)),
        types=types,
        metadata=metadata,
        shards=tuple(shard for header in headers for shard in header.shards),
        file_bytes=sum(header.file_bytes for header in headers),
        bytes_read=sum(header.bytes_read for header in headers),
    )


_name = operator.attrgetter("name")


def _twin(headers: list[Safetensors], where: str) -> KvcalcError:
    """The error that names the first tensor in two shards, and both."""
    holders: dict[str, Safetensors] = {}
    for header in headers:
        for tensor in header.tensors:
            holder = holders.setdefault(tensor.name, header)
            if holder is not header:
                both = " and ".join(shown(name) for name in holder.shards + header.shards)
                return broken(
                    where,
                    f'tensor "{shown(tensor.name)}" stands in both {both}',
                    "keep only the shards of one model there",
                )
    raise AssertionError("no tensor stands twice")


def _shard_names(folder: str) -> tuple[tuple[str, ...], int]:
    """The files that make up the model, in order, and the bytes read to know them."""
    where = label(folder)
    try:
        names = sorted(name for name in os.listdir(folder) if ENDING in name)
    except (OSError, ValueError) as error:
        raise broken(where, "cannot be listed", "name a folder that you may read") from error
    # In the order of transformers: a single file counts before an index.
    if SINGLE_NAME in names:
        return (SINGLE_NAME,), 0
    indexes = [name for name in names if name.endswith(f"{ENDING}.index.json")]
    if INDEX_NAME in indexes or len(indexes) == 1:
        chosen = INDEX_NAME if INDEX_NAME in indexes else indexes[0]
        index = read_index(os.path.join(folder, chosen))
        return _all_there(folder, index.shards, chosen), index.bytes_read
    files = tuple(name for name in names if name.endswith(ENDING))
    if not files:
        raise broken(where, "holds no .safetensors file", "name the folder with the weights")
    if len(files) == 1 and "-of-" not in files[0]:
        return files, 0
    return _all_there(folder, _numbered_set(files, where), files[0]), 0


def _numbered_set(files: tuple[str, ...], where: str) -> tuple[str, ...]:
    """All names of the set that the first file belongs to, as its own name counts them."""
    stem, _, count = files[0][: -len(ENDING)].rpartition("-of-")
    digits = len(count)
    wanted: tuple[str, ...] = ()
    if count.isascii() and count.isdigit() and digits <= 5:
        stem = stem[:-digits]
        wanted = tuple(f"{stem}{n:0{digits}d}-of-{count}{ENDING}" for n in range(1, int(count) + 1))
    if not set(files) <= set(wanted):
        raise broken(
            where,
            f"holds {len(files):,} .safetensors files and no index that says which belong together",
            f"fetch {INDEX_NAME} too, or name one file",
        )
    return wanted


def _all_there(folder: str, names: tuple[str, ...], source: str) -> tuple[str, ...]:
    for name in names:
        if not os.path.exists(os.path.join(folder, name)):
            raise broken(
                label(os.path.join(folder, name)),
                f"is missing; {shown(source)} belongs to {len(names):,} files",
                "fetch all shards of the model into one folder",
            )
    return names
