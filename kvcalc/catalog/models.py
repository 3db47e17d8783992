"""Model presets as core models."""

from __future__ import annotations

from collections.abc import Iterable

from kvcalc.catalog.decode import model_of
from kvcalc.catalog.lookup import SHIPPED, Found, everything, ids, lookup
from kvcalc.core.model import Model

#: Shipped models by id, once read: they cannot change while a process runs.
_shipped: dict[str, Model] = {}


def load_model(name: str, user_dirs: Iterable[str] = ()) -> Model:
    """The model called `name`: an id, an alias or a hub name of a preset.

    Args:
        name: Case, `_`, `-` and blanks do not matter.
        user_dirs: Folders whose models/*.toml win, after those of KVCALC_PRESETS.

    Raises:
        KvcalcError: "unknown_model" with the nearest ids; "invalid_preset" or
            "unreadable_input" for a file of the user.
    """
    return _model(lookup("models", name, user_dirs))


def model_ids(user_dirs: Iterable[str] = ()) -> list[str]:
    """Ids of all model presets, sorted."""
    return ids("models", user_dirs)


def load_all_models(user_dirs: Iterable[str] = ()) -> list[Model]:
    """All models, sorted by id."""
    return [_model(found) for found in everything("models", user_dirs)]


def model_entry(name: str, user_dirs: Iterable[str] = ()) -> Found:
    """The preset's whole table, with the sources, notes and fields that a Model does not keep."""
    return lookup("models", name, user_dirs)


def _model(found: Found) -> Model:
    if found.source != SHIPPED:
        return model_of(found.entry, found.file, found.source)
    preset_id = found.entry["id"]
    if preset_id not in _shipped:
        _shipped[preset_id] = model_of(found.entry, found.file, found.source)
    return _shipped[preset_id]
