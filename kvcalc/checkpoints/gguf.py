"""GGUF models: the headers of versions 2 and 3, of one file or of all split parts.

Tensor data is never read, and nothing is interpreted: what the keys of an architecture mean is
decided elsewhere.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from kvcalc.checkpoints.bounded import Total, broken, label, totals
from kvcalc.checkpoints.gguf_header import GgufPart, GgufTensor, Skipped, Value, read_part
from kvcalc.core.units import shown

__all__ = ["GgufFile", "GgufTensor", "Skipped", "Value", "read_gguf"]

#: split.count has 16 bits.
MAX_PARTS = 65_535


class GgufFile(NamedTuple):
    """The header of a model in one GGUF file or in all its split parts.

    Of a split model, `metadata` is the first part's; `parts` names every file in order.
    `file_bytes` and `bytes_read` (what was fetched from the disk) sum over the parts.
    """

    version: int
    byte_order: str
    architecture: str
    metadata: dict[str, Value]
    tensors: tuple[GgufTensor, ...]
    types: dict[str, Total]
    alignment: int
    parts: tuple[str, ...]
    file_bytes: int
    bytes_read: int

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        return sum(total.elements for total in self.types.values())

    @property
    def stored_bytes(self) -> int:
        """Bytes of all tensors, without header and padding."""
        return sum(total.stored_bytes for total in self.types.values())


def read_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Read the header of a GGUF model; any part of a split model stands for the whole.

    Raises:
        KvcalcError: "unreadable_input" if a file is missing, damaged, cut off, of another version
            or type, or if the parts of a split model do not belong together.
    """
    where = label(path)
    part = read_part(path)
    paths = _siblings(os.fspath(path), part.metadata)
    parts = [part if name == os.fspath(path) else read_part(name) for name in paths]
    if len(parts) > 1:
        _check_split(paths, parts)
    first = parts[0]
    architecture = first.metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise broken(
            where,
            "metadata has no general.architecture, so it holds no model",
            "name the GGUF file with the model's own weights",
        )
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    return GgufFile(
        version=first.version,
        byte_order=first.byte_order,
        architecture=architecture,
        metadata=first.metadata,
        tensors=tensors,
        types=totals((t.type, t.elements, t.stored_bytes) for t in tensors),
        alignment=first.alignment,
        parts=tuple(os.path.basename(name) for name in paths),
        file_bytes=sum(part.file_bytes for part in parts),
        bytes_read=sum(part.bytes_read for part in parts),
    )


def _siblings(path: str, metadata: dict[str, Value]) -> list[str]:
    """The files of a split model in order; `path` alone if it is whole."""
    count, number = metadata.get("split.count", 0), metadata.get("split.no", 0)
    if (
        type(count) is not int
        or type(number) is not int
        or not 0 <= number < max(count, 1) <= MAX_PARTS
    ):
        raise broken(
            label(path), f"split.no {shown(number)} and split.count {shown(count)} contradict"
        )
    # Merging the parts of a split model leaves split.count = 0 behind.
    if count <= 1:
        return [path]
    ending = f"-{number + 1:05d}-of-{count:05d}.gguf"
    if not path.endswith(ending):
        raise broken(
            label(path),
            f'is part {number + 1:,} of {count:,}, but its name does not end in "{ending}"',
            "give the parts their own names back: all are found by name",
        )
    stem = path[: -len(ending)]
    paths = [f"{stem}-{part + 1:05d}-of-{count:05d}.gguf" for part in range(count)]
    for part in paths:
        if not os.path.exists(part):
            raise broken(
                label(part),
                f"is missing; {label(os.path.basename(path))} is one of {count:,} parts",
                "all parts must lie in one folder",
            )
    return paths


def _check_split(paths: list[str], parts: list[GgufPart]) -> None:
    """Each part says its own number and the same count, and no tensor is missing or there twice."""
    for number, (path, part) in enumerate(zip(paths, parts, strict=True)):
        says = part.metadata.get("split.no", 0), part.metadata.get("split.count", 0)
        if says != (number, len(parts)):
            raise broken(
                label(path),
                f"says split.no {shown(says[0])} of {shown(says[1])},"
                f" expected {number} of {len(parts):,}",
            )
    names: set[str] = set()
    for path, part in zip(paths, parts, strict=True):
        for tensor in part.tensors:
            if tensor.name in names:
                raise broken(label(path), f'tensor "{shown(tensor.name)}" stands in two parts')
            names.add(tensor.name)
    found = len(names)
    wanted = parts[0].metadata.get("split.tensors.count", found)
    if wanted != found:
        raise broken(
            label(paths[0]),
            f"the {len(parts):,} parts hold {found:,} tensors, split.tensors.count is"
            f" {shown(wanted)}",
        )
