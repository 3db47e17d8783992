"""Typed reading of one config: every value is checked, every default is noted.

Nothing here knows an architecture. A value of the wrong type or out of range never becomes a
number: it raises, naming the file, the field and the value.
"""

from __future__ import annotations

from typing import Any

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: No model has more; larger values are damage.
MAX_LAYERS, MAX_DIM, MAX_TOKENS = 10_000, 1_000_000, 10**12
#: What a field must have, when no class default stands in for it.
REQUIRED = object()


class Fields:
    """One JSON object of a config.

    Args:
        data: The object.
        where: The file, for messages.
        path: Where in the file the object stands, such as "text_config.".
        notes: Collects (field, value) of every default taken; shared with nested objects.
    """

    __slots__ = ("data", "notes", "path", "where")

    def __init__(
        self,
        data: dict[str, Any],
        where: str,
        path: str = "",
        notes: dict[str, str] | None = None,
    ) -> None:
        self.data, self.where, self.path = data, where, path
        self.notes: dict[str, str] = {} if notes is None else notes

    def has(self, name: str) -> bool:
        """Whether the field stands in the file, null included."""
        return name in self.data

    def get(self, name: str) -> Any:
        """The unchecked value, or None."""
        return self.data.get(name)

    def first(self, names: tuple[str, ...]) -> str | None:
        """The first of several spellings that has a value, null not counting as one."""
        for name in names:
            if self.data.get(name) is not None:
                return name
        return None

    def note(self, name: str, value: object) -> None:
        """Record that a default stood in for a missing field."""
        self.notes.setdefault(name, str(value))

    def bad(self, name: str, expected: str, value: object = REQUIRED) -> KvcalcError:
        """The error for a value that makes no sense."""
        value = self.data.get(name) if value is REQUIRED else value
        text = value
        if value is None or isinstance(value, bool):
            text = {None: "null", True: "true", False: "false"}[value]  # as JSON writes them
        elif isinstance(value, str):
            text = f'"{value}"'
        return KvcalcError(
            "invalid_config",
            f"{shown(self.where)}: {self.path}{shown(name)} is {shown(text, 40)}, "
            f"expected {expected}",
            "correct the field, or size the shape with --layers, --kv-heads and --head-dim",
        )

    def wrong_length(self, name: str, needed: int, found: int) -> KvcalcError:
        """The error for a list with another number of entries than there are layers."""
        return KvcalcError(
            "invalid_config",
            f"{shown(self.where)}: {self.path}{shown(name)} lists {found:,}, expected {needed:,}",
            "one entry a layer, in order",
        )

    def missing(self, name: str) -> KvcalcError:
        """The error for a field that has no default."""
        return KvcalcError(
            "invalid_config",
            f"{shown(self.where)}: {self.path}{shown(name)} is missing",
            "add the field, or size the shape with --layers, --kv-heads and --head-dim",
        )

    def unknown(self, name: str, value: object, known: str) -> KvcalcError:
        """The error for a kind of layer or attention that is not understood."""
        return KvcalcError(
            "unsupported_architecture",
            f'{shown(self.where)}: {self.path}{shown(name)} is "{shown(value, 40)}", '
            f"which kvcalc does not know; known: {known}",
            "--layers, --kv-heads and --head-dim size what you know of the model",
        )

    def whole(self, name: str, value: object, low: int = 1, high: int = MAX_DIM) -> int:
        """`value` of the field `name` as a whole number in [low, high].

        Raises:
            KvcalcError: "invalid_config" otherwise; booleans, floats and strings are no numbers.
        """
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.bad(name, f"a whole number from {low:,} to {high:,}", value)
        return value

    def count(
        self,
        *names: str,
        default: object = REQUIRED,
        low: int = 1,
        high: int = MAX_DIM,
    ) -> int:
        """A whole number under the first of several spellings; null counts as missing.

        Raises:
            KvcalcError: "invalid_config" if it is no such number, or missing without a default.
        """
        name = self.first(names)
        if name is not None:
            return self.whole(name, self.data[name], low, high)
        if default is REQUIRED:
            raise self.missing(names[0])
        self.note(names[0], default)
        return self.whole(names[0], default, low, high)

    def optional(self, *names: str, low: int = 1, high: int = MAX_DIM) -> int | None:
        """As `count`, and None where no spelling has a value.

        Raises:
            KvcalcError: "invalid_config" if there is a value and it is no such number.
        """
        name = self.first(names)
        return None if name is None else self.whole(name, self.data[name], low, high)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false.

        Raises:
            KvcalcError: "invalid_config" if it is neither.
        """
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.bad(name, "true or false")
        return value

    def items(self, name: str) -> list[Any] | None:
        """A list, or None where there is none.

        Raises:
            KvcalcError: "invalid_config" if it is something else or absurdly long.
        """
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > MAX_LAYERS:
            raise self.bad(name, f"a list of at most {MAX_LAYERS:,}")
        return value

    def counts(self, name: str, low: int = 0, high: int = MAX_DIM) -> list[int] | None:
        """A list of whole numbers, or None.

        Raises:
            KvcalcError: "invalid_config" if an item is no such number.
        """
        found = self.items(name)
        if found is None:
            return None
        return [self.whole(f"{name}[{i}]", v, low, high) for i, v in enumerate(found)]

    def texts(self, name: str) -> list[str] | None:
        """A list of strings, or None.

        Raises:
            KvcalcError: "invalid_config" if an item is no string.
        """
        found = self.items(name)
        if found is None:
            return None
        for i, value in enumerate(found):
            if not isinstance(value, str):
                raise self.bad(f"{name}[{i}]", "text", value)
        return found

    def text(self, name: str) -> str | None:
        """A string, or None.

        Raises:
            KvcalcError: "invalid_config" if it is something else.
        """
        value = self.data.get(name)
        if value is not None and not isinstance(value, str):
            raise self.bad(name, "text")
        return value

    def sub(self, name: str) -> Fields | None:
        """A nested object, or None.

        Raises:
            KvcalcError: "invalid_config" if it is something else.
        """
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.bad(name, "an object")
        return Fields(value, self.where, f"{self.path}{name}.", self.notes)

    def over(self, changes: dict[str, Any], path: str) -> Fields:
        """The same object with some fields replaced (one layer's own values)."""
        place = f"{self.path}{path}." if path else self.path
        return Fields({**self.data, **changes}, self.where, place, self.notes)

    def lenient(self, *names: str) -> int | None:
        """A whole number that shapes no cache (vocabulary, context): None if it is nonsense."""
        for name in names:
            value = self.data.get(name)
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_TOKENS:
                return value
        return None
