"""hf:ORG/NAME[@REVISION]: a model of the hub from its config, index and safetensors headers.

Nothing else is fetched, and nothing at all unless the user wrote such a name. What the hub's cache
holds already is read there.
"""

from __future__ import annotations

import re
import threading
from dataclasses import replace

from kvcalc.checkpoints.bounded import MAX_HEADER_BYTES, broken
from kvcalc.checkpoints.hub_errors import Repo
from kvcalc.checkpoints.hub_fetch import Remote
from kvcalc.checkpoints.safetensors import (
    INDEX_NAME,
    SINGLE_NAME,
    Safetensors,
    header_length,
    parse_header,
    read_index,
    read_safetensors,
)
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.units import shown

PREFIX = "hf:"
CONFIG = "config.json"
#: Headers fetched at the same time; the largest models have some 200 shards.
WORKERS = 8
_NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[^\s\x00-\x1f?#%:\\]{1,200}")


def repo_of(name: str) -> Repo:
    """The repository and revision in hf:ORG/NAME[@REVISION].

    Raises:
        KvcalcError: "usage" if it is no such name; "unreadable_input" if it names a .gguf file.
    """
    text = name[len(PREFIX) :].removeprefix("//")
    if text.lower().endswith(".gguf"):
        raise KvcalcError(
            "unreadable_input", f"{shown(name, 200)}: GGUF files are read from the disk only",
            "fetch it (hf download ORG/NAME FILE.gguf) and name the file",
        )  # fmt: skip
    repo, at, revision = text.partition("@")
    good = _NAME.fullmatch(repo) is not None and ".." not in text and "--" not in repo
    if not good or (at and _REVISION.fullmatch(revision) is None):
        raise KvcalcError(
            "usage", f"{shown(name, 200)} is no name of the hub",
            "like hf:ORG/NAME, or hf:ORG/NAME@REVISION for a branch, tag or commit",
        )  # fmt: skip
    return Repo(repo, revision or None)


def load_hub(name: str) -> Model:
    """The model of hf:ORG/NAME[@REVISION]; its `file` names the commit.

    Raises:
        KvcalcError: "usage" for no such name; "missing_extra" without huggingface_hub;
            "unknown_model" if the hub has no such repository or revision; "unreadable_input" if
            it refuses (gated, too many requests), cannot be reached, or a header is damaged; and
            what `model_from_config` raises.
    """
    from kvcalc.checkpoints.config import load_json, model_from_config  # noqa: PLC0415 - hf: alone
    from kvcalc.checkpoints.stored import with_weights  # noqa: PLC0415

    remote = Remote(repo_of(name))
    config = load_json(remote.first(CONFIG))
    model = model_from_config(
        config, name=remote.repo.id.rpartition("/")[2], where=f"{remote.repo.typed}: {CONFIG}"
    )
    shards, index_bytes = _headers(remote)
    model = with_weights(model, config, shards, index_bytes)
    return replace(model, source="hub", file=remote.place, hub=(remote.repo.id,))


def _headers(remote: Remote) -> tuple[list[Safetensors], int | None]:
    """The headers of a repository's safetensors; without them, what its index says they take."""
    fetch = _Fetch(remote)
    # What was fetched before tells which of the two a repository has.
    single = None if remote.cached(INDEX_NAME) else fetch(SINGLE_NAME)
    if single is not None:
        return [single], None
    path = remote.small(INDEX_NAME)
    if path is None:
        return [], None
    index = read_index(path)
    shards = fetch.shards(index.shards)
    return ([], index.total_bytes) if shards is None else (shards, None)


class _Fetch:
    """Reads headers by range, or in the cache; together they stay within the bound of one."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._left, self._lock = MAX_HEADER_BYTES, threading.Lock()

    def __call__(self, file: str) -> Safetensors | None:
        """The header of one file; None if it is missing, or only the cache may be asked."""
        path = self._remote.cached(file)
        if path is not None:
            return read_safetensors(path)._replace(shards=(file,))
        if self._remote.offline:
            return None
        where = f"{shown(self._remote.repo.typed, 200)}: {shown(file)}"
        found = self._remote.head(file, lambda data, size: self._needed(data, size, where))
        if found is None:
            return None
        data, size = found
        return parse_header(data[8:], len(data) - 8, size, where)._replace(shards=(file,))

    def shards(self, files: tuple[str, ...]) -> list[Safetensors] | None:
        """The headers of all files, some at the same time; None if one is missing."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - shards alone

        pool = ThreadPoolExecutor(WORKERS)
        try:
            found = []
            for header in pool.map(self, files):
                if header is None:
                    return None
                found.append(header)
            return found
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _needed(self, data: bytes, size: int, where: str) -> int:
        needed = 8 + header_length(data[:8], size, where)
        with self._lock:
            self._left -= needed
            if self._left < 0:
                raise broken(
                    where, f"the headers take more than {MAX_HEADER_BYTES:,} bytes together",
                    "size the model by its numbers",
                )  # fmt: skip
        return needed
