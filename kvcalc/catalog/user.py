"""The user's own presets: DIR/models/*.toml and DIR/gpus/*.toml, checked strictly when read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from kvcalc.catalog.files import Entry, read_toml
from kvcalc.catalog.index import names_of
from kvcalc.catalog.locate import shown_path
from kvcalc.catalog.names import find, normalise
from kvcalc.core.errors import KvcalcError

VARIABLE = "KVCALC_PRESETS"


class UserFile(NamedTuple):
    """A user's preset file: its table, or the error that kept it from being read."""

    path: str
    entry: Entry | None
    error: KvcalcError | None


Signature = tuple[tuple[str, int, int], ...]
#: Files as last read, by folder; the signature tells whether anything changed since.
_read: dict[str, tuple[Signature, list[UserFile]]] = {}


def folders(kind: str, user_dirs: Iterable[str] = ()) -> list[str]:
    """Existing folders of the user's "models" or "gpus", the first to win.

    Those of KVCALC_PRESETS come before `user_dirs` (the app folder, which need not exist).

    Raises:
        KvcalcError: "unreadable_input" if KVCALC_PRESETS names no folder: its presets would
            silently not be used.
    """
    found = []
    for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if not os.path.isdir(path):
            raise KvcalcError(
                "unreadable_input", f"{VARIABLE}: no folder {shown_path(path)}",
                f"give folders that hold models/ or gpus/, separated by {os.pathsep}",
            )  # fmt: skip
        found.append(os.path.join(path, kind))
    found += [os.path.join(path, kind) for path in user_dirs]
    return [path for path in found if os.path.isdir(path)]


def files(folder: str) -> list[UserFile]:
    """The preset files of one folder, in order of their names; broken ones carry their error.

    Raises:
        KvcalcError: "unreadable_input" if the folder cannot be listed.
    """
    try:
        with os.scandir(folder) as listing:
            found = [e for e in listing if e.name.endswith(".toml") and e.name[0] != "."]
    except OSError as error:
        raise KvcalcError(
            "unreadable_input", f"{shown_path(folder)}: cannot be listed: {error.strerror}"
        ) from None
    signature = tuple(sorted(map(_signature, found)))
    known = _read.get(folder)
    if known is None or known[0] != signature:
        known = (signature, [_file(os.path.join(folder, name)) for name, _, _ in signature])
        _read[folder] = known
    return known[1]


def _signature(entry: os.DirEntry[str]) -> tuple[str, int, int]:
    try:
        stat = entry.stat()
    except OSError:  # a link to nowhere: reading it tells
        return entry.name, 0, 0
    return entry.name, stat.st_mtime_ns, stat.st_size


def _file(path: str) -> UserFile:
    if not os.path.isfile(path):  # a folder, a dangling link, or a pipe that would never answer
        error = KvcalcError("unreadable_input", f"{shown_path(path)}: is no readable file")
        return UserFile(path, None, error)
    try:
        entry = read_toml(path)
    except KvcalcError as error:
        return UserFile(path, None, error)
    return UserFile(path, entry, None)


def stem(path: str) -> str:
    """A file's name without .toml: the name under which it is found even when it is broken."""
    return os.path.basename(path)[: -len(".toml")]


def names(file: UserFile) -> list[str]:
    """Normalised names a user's file answers to: its own, its id, its aliases and hub names."""
    own = [normalise(stem(file.path))]
    if file.entry is None or not isinstance(file.entry.get("id"), str):
        return own
    lists = {k: v for k in ("aliases", "hub") if isinstance(v := file.entry.get(k), list)}
    return own + names_of({"id": file.entry["id"], **lists})


def match(kind_folders: Iterable[str], name: str) -> UserFile | None:
    """The user's file for `name`: of the first folder that has one.

    Raises:
        KvcalcError: the file's own error if it is broken.
    """
    for folder in kind_folders:
        listed = files(folder)
        path = find(name, {n: f.path for f in reversed(listed) for n in names(f)})
        for file in listed:
            if file.path == path:
                if file.error is not None:
                    raise file.error
                return file
    return None


def first_error(kind_folders: Iterable[str]) -> KvcalcError | None:
    """The error of the first broken file: a name found nowhere may be in there."""
    return next((f.error for folder in kind_folders for f in files(folder) if f.error), None)
