"""An engine's flags as data, and one walk over its words by that engine's rules."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import MAX_COUNT, shown

#: Suffixes of vLLM and SGLang: small letters are decimal, capitals binary.
_HUMAN = {
    "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
    "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40,
}  # fmt: skip
_YES, _NO = frozenset({"1", "true", "on", "yes", "enabled"}), frozenset({
    "0", "false", "off", "no", "disabled",
})  # fmt: skip


class Flag(NamedTuple):
    """One flag: its spellings, the kind of its value, and what it becomes.

    `kind`: int, human (32k = 32,000, 32K = 32,768), number, text, dtype (auto says nothing), json,
    words (several), switch, or toggle (a switch that may have on, off or auto after it).
    `to`: "NAME" of an option of fit, "=NAME" of a setting, "model", or "" (it is ignored).
    """

    names: tuple[str, ...]
    kind: str
    to: str = ""
    #: What a switch means.
    value: Any = True
    #: Does more than one thing with a value.
    then: Callable[[Reading, Any], None] | None = None


class Launch(NamedTuple):
    """What a launch line says, in kvcalc's words."""

    engine: str
    model: str | None
    #: Keywords of `kvcalc.fit`.
    options: dict[str, Any]
    #: Settings by the engine's own names, as --set takes them.
    settings: dict[str, Any]
    #: Flags that say nothing of memory, or that kvcalc does not know.
    ignored: tuple[str, ...]
    #: The engine's own default where the line gives no context: "model" (its maximum), "vram"
    #: (by the GPU's memory), "" where the line gives one.
    default_context: str = ""

    def context(self, maximum: int | None, memory_bytes: int | None = None) -> int | None:
        """Tokens of one request: the line's, else the engine's default for model and GPU."""
        given = self.options.get("context")
        if given is not None:
            return int(given)
        if self.default_context == "vram":
            # Ollama from 0.15 on: by the memory of all GPUs.
            size = memory_bytes or 0
            tokens = 4096 if size < 24 * 2**30 else 32_768 if size < 48 * 2**30 else 262_144
            return min(tokens, maximum or tokens)
        return maximum


class Reading:
    """What the walk has found so far."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.model: str | None = None
        self.options: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.ignored: list[str] = []

    def put(self, to: str, value: Any) -> None:
        """A value where it belongs."""
        if to == "model":
            self.model = str(value)
        elif to.startswith("="):
            self.settings[to[1:]] = value
        elif to:
            self.options[to] = value

    def done(self, default_context: str = "") -> Launch:
        """The finished launch."""
        if "context" in self.options:
            default_context = ""
        return Launch(
            self.engine, self.model, self.options, self.settings,
            tuple(dict.fromkeys(self.ignored)), default_context,
        )  # fmt: skip


def walk(reading: Reading, words: Sequence[str], flags: Sequence[Flag]) -> None:
    """Read the words after the engine's command; the first bare word is the model.

    Raises:
        KvcalcError: "usage" for a value that the engine would refuse, or one that is missing.
    """
    known = {_key(name): flag for flag in flags for name in flag.names}
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if not _is_flag(word):
            if reading.model is None:
                reading.model = word
            else:
                reading.ignored.append(word)
            continue
        name, equals, rest = word.partition("=")
        name, key = _dotted(name, known)
        flag = known.get(name) or _abbreviated(name, known) or _glued(word, known, queue)
        if flag is None:
            _unknown(reading, word.partition("=")[0], bool(equals), queue)
            continue
        value = _value(reading, flag, word.partition("=")[0], rest if equals else None, queue)
        if value is not None:
            _take(reading, flag, name, {key: value} if key else value)


def _take(reading: Reading, flag: Flag, name: str, value: Any) -> None:
    if not flag.to and flag.then is None:
        reading.ignored.append(name)
        return
    if flag.then is not None:
        flag.then(reading, value)
    reading.put(flag.to, value)


def _is_flag(word: str) -> bool:
    """-1 is a value, -tp and --tp are flags."""
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit()


def _key(name: str) -> str:
    return name if not name.startswith("--") else name.replace("_", "-")


def _dotted(name: str, known: dict[str, Flag]) -> tuple[str, str]:
    """`--speculative-config.method` is one key of a JSON argument."""
    head, dot, key = name.partition(".")
    flag = known.get(_key(head))
    if dot and flag is not None and flag.kind == "json":
        return _key(head), key
    return _key(name), ""


def _abbreviated(name: str, known: dict[str, Flag]) -> Flag | None:
    """The one flag that begins so: argparse takes --tp for --tp-size."""
    if not name.startswith("--") or len(name) < 4:
        return None
    found = {id(f): f for n, f in known.items() if n.startswith(name)}
    return next(iter(found.values())) if len(found) == 1 else None


def _glued(word: str, known: dict[str, Flag], queue: list[str]) -> Flag | None:
    """A short flag with its value glued on, as -c8192 or -ngl99 or -O3."""
    if word.startswith("--") or "=" in word:
        return None
    for end in range(len(word) - 1, 1, -1):
        flag = known.get(word[:end])
        if flag is not None and flag.kind not in {"switch", "toggle"} and word[end:].isdecimal():
            queue.insert(0, word[end:])
            return flag
    return None


def _unknown(reading: Reading, name: str, has_value: bool, queue: list[str]) -> None:
    """A flag that kvcalc does not know: named, its value skipped, nothing guessed."""
    reading.ignored.append(name)
    while not has_value and queue and not _is_flag(queue[0]):
        # Before the model is named a word with a slash is taken for it.
        if reading.model is None and "/" in queue[0] and "=" not in queue[0]:
            return
        queue.pop(0)
        if reading.model is None:
            return


def _value(
    reading: Reading, flag: Flag, name: str, given: str | None, queue: list[str]
) -> Any | None:
    """The flag's value, of its kind; None where the engine's default stays."""
    if flag.kind == "switch":
        if given is None:
            return flag.value
        return flag.value if truth(given) in {True, None} else None
    if flag.kind == "toggle":
        if given is None and queue and truth(queue[0], auto=True) is not None:
            given = queue.pop(0)
        found = True if given is None else truth(given, auto=True)
        return None if found == "auto" else found
    if flag.kind == "words":
        words = [given] if given is not None else []
        while given is None and queue and not _is_flag(queue[0]):
            words.append(queue.pop(0))
        return " ".join(words)
    if given is None:
        if not queue or _is_flag(queue[0]):
            raise KvcalcError(
                "usage", f"launch line: {name} has no value", f"{reading.engine} needs one there"
            )
        given = queue.pop(0)
    return parsed(flag.kind, given.strip(), name)


def parsed(kind: str, text: str, name: str) -> Any:
    """A value by the engine's rules.

    Raises:
        KvcalcError: "usage".
    """
    if kind == "human":
        return human(text, name)
    if kind == "int":
        if text.lstrip("-").isdecimal() and len(text) < 20:
            return int(text)
        raise _wrong(name, text, "a whole number")
    if kind == "number":
        try:
            number = float(text)
        except ValueError:
            raise _wrong(name, text, "a number") from None
        if not math.isfinite(number):
            raise _wrong(name, text, "a number")
        return text
    if kind == "json":
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return found
    return None if kind == "dtype" and text.lower() == "auto" else text


def human(text: str, name: str) -> int | str:
    """human_readable_int of vLLM and SGLang: 32k is 32,000, 32K 32,768, 25.6k 25,600.

    "auto" and -1 stay as they are.

    Raises:
        KvcalcError: "usage", also for decimals with a binary suffix, which the engines refuse.
    """
    if text.lower() == "auto" or text == "-1":
        return "auto"
    digits, suffix = (text[:-1], text[-1]) if text[-1:] in _HUMAN else (text, "")
    plain = digits.replace(".", "", 1)
    if not plain.isdecimal() or not plain.isascii() or len(plain) > 20:
        raise _wrong(name, text, "a number like 32768, 32k (32,000) or 32K (32,768)")
    if "." in digits and (not suffix or suffix.isupper()):
        raise _wrong(name, text, f"no decimals; {digits}{suffix.lower() or 'k'} has them")
    value = Fraction(digits) * _HUMAN.get(suffix, 1)
    if value > MAX_COUNT:
        raise _wrong(name, text, f"at most {MAX_COUNT:,}")
    return int(value)


def truth(text: str, *, auto: bool = False) -> bool | str | None:
    """On or off as words say it; "auto" only where it may be."""
    word = text.lower()
    if word in _YES:
        return True
    if word in _NO:
        return False
    return "auto" if auto and word == "auto" else None


def _wrong(name: str, text: str, expected: str) -> KvcalcError:
    return KvcalcError("usage", f"launch line: {name} is {shown(text)}", f"expected {expected}")
