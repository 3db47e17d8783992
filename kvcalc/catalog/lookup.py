"""A name to its preset's table: the user's presets first, then the shipped ones."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from kvcalc.catalog import user
from kvcalc.catalog.files import Entry, read_toml
from kvcalc.catalog.index import shipped_names
from kvcalc.catalog.locate import data_dir, shown_path
from kvcalc.catalog.names import find, normalise, unknown

Kind = Literal["models", "gpus"]
SHIPPED, USER = "preset", "user preset"
#: What a name may hold to be tried as a file's name: nothing that leaves the folder.
_FILE_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.+-")
_VENDORS = ("nvidia-", "geforce-", "tesla-", "amd-", "instinct-", "radeon-", "intel-")


class Found(NamedTuple):
    """A preset's table, the file to show for it and whose it is: "preset" or "user preset"."""

    entry: Entry
    file: str
    source: str


def lookup(kind: Kind, name: str, user_dirs: Iterable[str] = ()) -> Found:
    """The preset called `name`.

    Raises:
        KvcalcError: "unknown_model" or "unknown_gpu" with the nearest ids; "invalid_preset" or
            "unreadable_input" for a file of the user that cannot be used.
    """
    folders = user.folders(kind, user_dirs)
    own = user.match(folders, name) if folders else None
    if own is None:
        shipped = shipped_id(kind, name)
        if shipped is None:
            raise _unknown(kind, name, folders)
        # A user's preset of the same id also answers to the shipped one's aliases.
        own = user.match(folders, shipped) if folders else None
        if own is None:
            return shipped_entry(kind, shipped)
    return _checked(kind, own)


@lru_cache(maxsize=4096)
def shipped_id(kind: Kind, name: str) -> str | None:
    """The id of the shipped preset called `name`, or None."""
    word = normalise(name)
    if _FILE_CHARACTERS.issuperset(word) and os.path.isfile(_path(kind, word)):
        return word
    names = shipped_names(kind)
    found = find(name, names)
    while found is None and kind == "gpus" and word.startswith(_VENDORS):
        word = word.partition("-")[2]
        found = find(word, names)
    return found


@cache
def shipped_entry(kind: Kind, preset_id: str) -> Found:
    """The shipped preset of that id, read once; its file is shown as the repository has it."""
    entry = read_toml(_path(kind, preset_id))
    return Found(entry, f"presets/{kind}/{preset_id}.toml", SHIPPED)


def ids(kind: Kind, user_dirs: Iterable[str] = ()) -> list[str]:
    """Ids of all presets, sorted; the user's own among them.

    Raises:
        KvcalcError: as `lookup`, for any broken file of the user.
    """
    own = [f.entry["id"] for f in everything(kind, user_dirs, shipped=False)]
    return sorted({*shipped_names(kind).values(), *own})


def everything(kind: Kind, user_dirs: Iterable[str] = (), *, shipped: bool = True) -> list[Found]:
    """All presets, sorted by id, a user's in place of the shipped one of its id.

    Raises:
        KvcalcError: as `lookup`, for any broken file of the user.
    """
    found: dict[str, Found] = {}
    for folder in user.folders(kind, user_dirs):
        for file in user.files(folder):
            if file.error is not None:
                raise file.error
            checked = _checked(kind, file)
            found.setdefault(checked.entry["id"], checked)
    if shipped:
        for preset_id in set(shipped_names(kind).values()) - set(found):
            found[preset_id] = shipped_entry(kind, preset_id)
    return [found[preset_id] for preset_id in sorted(found)]


def _checked(kind: Kind, file: user.UserFile) -> Found:
    from kvcalc.catalog.schema import check  # noqa: PLC0415 - pydantic, for user files alone

    entry, path = file.entry or {}, shown_path(file.path)
    check(kind, entry, path)
    return Found(entry, path, USER)


def _path(kind: Kind, preset_id: str) -> str:
    return os.path.join(data_dir("presets"), kind, f"{preset_id}.toml")


def _unknown(kind: Kind, name: str, folders: list[str]) -> Exception:
    broken = user.first_error(folders)
    if broken is not None:
        return broken
    own = {n: n for folder in folders for f in user.files(folder) for n in user.names(f)}
    return unknown(kind[:-1], name, {**shipped_names(kind), **own})
