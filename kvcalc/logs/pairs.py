"""Settings dumped as `name=value, …` or `'name': value, …`: the names asked for, of their kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: A dumped value longer than this is no setting of the cache (a compilation config).
_LONGEST = 300
_OPEN, _CLOSE = "([{", ")]}"
_SPECIAL = r"""['"(\[{}\]),]"""


def pairs(text: str, names: Mapping[str, str]) -> dict[str, Any]:
    """The settings of `names` (as dumped → as reported) at the top level of `text`.

    Ends where the brackets around `text` close; a text that is cut gives what it holds. A value
    None is left out: the engine's default holds.
    """
    found: dict[str, Any] = {}
    for part in _parts(text):
        match = re.match(
            r"""\s*['"]?([A-Za-z_][A-Za-z0-9_]*)['"]?\s*[=:]\s*(.*)""", part, re.DOTALL
        )
        if match is None or match[1] not in names or len(match[2]) > _LONGEST:
            continue
        value = typed(match[2])
        if value is not None:
            found[names[match[1]]] = value
    return found


def _parts(text: str) -> list[str]:
    """The text cut at its top-level commas."""
    parts, start, depth, quote = [], 0, 0, ""
    for match in re.finditer(_SPECIAL, text):
        mark, at = match[0], match.start()
        if quote:
            # An apostrophe inside a word ends no quotation: "'don't'" is not dumped here.
            quote = "" if mark == quote else quote
        elif mark in {"'", '"'}:
            quote = mark
        elif mark in _OPEN:
            depth += 1
        elif mark in _CLOSE:
            depth -= 1
            if depth < 0:
                parts.append(text[start:at])
                return parts
        elif mark == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return parts


def typed(text: str) -> Any:
    """A dumped value: a number, True, None or a word; enums and torch dtypes by their names."""
    word = text.strip()
    if len(word) >= 2 and word[0] == word[-1] and word[0] in "'\"":
        word = word[1:-1]
        return typed(word) if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", word) else word
    if word in {"None", "null", ""}:
        return None
    if word.lower() in {"true", "false"}:
        return word.lower() == "true"
    if re.fullmatch(r"-?[0-9]{1,30}", word):
        return int(word)
    if re.fullmatch(r"-?[0-9]{1,20}\.[0-9]{1,20}", word):
        return float(word)
    enum = re.fullmatch(r"<[A-Za-z_.]+:\s*['\"]?([^'\">]*)['\"]?>", word)
    if enum is not None:
        return enum[1]
    return word.removeprefix("torch.")
