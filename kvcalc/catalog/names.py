"""How people spell a preset's name, and what they probably meant when nothing is called so."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: Longer than any hub name; more is pasted text.
MAX_NAME = 200
MIN_BEGUN = 3
#: Compiled at the second pass: most names are found in the first.
_BETWEEN_DIGITS = r"(?<=[0-9])[-/](?=[0-9])"
_SEPARATORS = r"[-./]+"


def normalise(name: str) -> str:
    """The name as the index spells it: lower case, runs of `_`, `-`, `:` and blanks as one `-`.

    So an Ollama tag such as llama3.1:8b is the model that it names.
    """
    spaced = name.lower().replace("_", " ").replace(":", " ").replace("-", " ")
    return "-".join(spaced.split())


def squeeze(name: str) -> str:
    """The name without its separators, for a second pass: "Llama3.1-70b" is "llama31!70b".

    A `-` between digits keeps a mark, so that "gemma 31b" is never taken for gemma-3-1b.
    """
    return re.sub(_SEPARATORS, "", re.sub(_BETWEEN_DIGITS, "!", normalise(name)))


def find(name: str, names: Mapping[str, str]) -> str | None:
    """The id that `names` (normalised name to id) gives for `name`, or None.

    The second pass ignores separators; it answers only when all it finds is one entry.
    """
    exact = names.get(normalise(name))
    if exact is not None:
        return exact
    wanted = squeeze(name)
    ids = {value for key, value in names.items() if squeeze(key) == wanted}
    return ids.pop() if len(ids) == 1 else None


def suggest(name: str, names: Mapping[str, str], count: int = 3) -> list[str]:
    """Ids that `name` was probably meant to be, best first."""
    from difflib import SequenceMatcher  # noqa: PLC0415 - only an error needs it

    wanted = normalise(name)[:MAX_NAME].rpartition("/")[2]
    best: dict[str, float] = {}
    # The matcher caches what it knows of its second sequence: that one stays.
    matcher = SequenceMatcher(b=wanted, autojunk=False)
    for key, value in names.items():
        if "/" in key:
            continue
        floor = max(0.5, best.get(value, 0.0))
        matcher.set_seq1(key)
        if matcher.real_quick_ratio() > floor and matcher.quick_ratio() > floor:
            # A name that was only begun is meant before one that differs; an id before an alias.
            begun = len(wanted) > MIN_BEGUN and key.startswith(wanted)
            ratio = matcher.ratio() + (0.15 if begun else 0) - (0 if key == value else 0.01)
            if ratio > floor:
                best[value] = ratio
    return sorted(best, key=lambda k: (-best[k], k))[:count]


def unknown(kind: str, name: str, names: Mapping[str, str]) -> KvcalcError:
    """The error "unknown_model" or "unknown_gpu" for a name that nothing has, nearest ids named."""
    close = suggest(name, names)
    listed = f"nearest: {', '.join(close)}; " if close else ""
    return KvcalcError(
        f"unknown_{kind}", f"no {kind} {_quoted(name)}", f"{listed}all: kvcalc {kind}s"
    )


def _quoted(name: str) -> str:
    return f'"{shown(name, 80)}"' if name else '""'
