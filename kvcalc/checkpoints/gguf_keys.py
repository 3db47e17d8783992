"""Typed reading of a GGUF file's metadata: every number checked before it shapes a cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: No layer count, head count, dimension or window of a real model is beyond these.
MAX_LAYERS, MAX_SIZE, MAX_TOKENS = 10_000, 2**24, 2**40


class Keys:
    """The keys of one architecture: `block_count` is `<architecture>.block_count`."""

    def __init__(self, metadata: Mapping[str, object], architecture: str, where: str) -> None:
        self.metadata, self.architecture, self.where = metadata, architecture, where

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> object:
        """The raw value, or None."""
        return self.metadata.get(f"{self.architecture}.{key}")

    def error(self, key: str, problem: str, hint: str | None = None) -> KvcalcError:
        """An "invalid_config" error that names the file and the key."""
        return KvcalcError(
            "invalid_config", f"{self.where}: {self.architecture}.{key} {problem}", hint
        )

    def whole(
        self, key: str, default: int | None = None, *, least: int = 1, most: int = MAX_SIZE
    ) -> int:
        """A whole number within [least, most]; `default` if the key is missing.

        Raises:
            KvcalcError: "invalid_config" if it is missing without default, or no such number.
        """
        value = self.get(key)
        if value is None:
            if default is None:
                raise self.error(key, "is missing", "convert the model again")
            return default
        return self._checked(key, value, least, most)

    def per_layer(
        self, key: str, count: int, default: Sequence[int] | None = None, *, least: int = 0
    ) -> list[int]:
        """One number for every layer, from a scalar or from an array of `count`.

        Raises:
            KvcalcError: "invalid_config" as `whole`, or for an array of another length.
        """
        value = self.get(key)
        if value is None:
            if default is None:
                raise self.error(key, "is missing", "convert the model again")
            return list(default)
        if not isinstance(value, (list, tuple)) or hasattr(value, "length"):
            return [self._checked(key, value, max(least, 1), MAX_SIZE)] * count
        if len(value) != count:
            raise self.error(key, f"has {len(value):,} entries; the model has {count:,} layers")
        return [self._checked(key, v, least, MAX_SIZE) for v in value]

    def flags(self, key: str, least: int) -> list[bool] | None:
        """True or false for at least `least` layers, or None if the key is missing.

        Raises:
            KvcalcError: "invalid_config" if it is no such array.
        """
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or hasattr(value, "length"):
            raise self.error(key, f"is {shown(value)}, expected an entry a layer")
        if len(value) < least:
            raise self.error(key, f"has {len(value):,} entries; the model has {least:,} layers")
        if any(v not in (0, 1) or isinstance(v, float) for v in value):
            raise self.error(key, "holds something else than true and false")
        return [bool(v) for v in value]

    def numbers(self, key: str, least: int) -> list[int]:
        """Whole numbers, 0 or more, for at least `least` layers.

        Raises:
            KvcalcError: "invalid_config" if it is no such array.
        """
        value = self.get(key)
        if not isinstance(value, (list, tuple)) or hasattr(value, "length") or len(value) < least:
            raise self.error(key, f"is {shown(value)}, expected a number for each layer")
        return [self._checked(key, v, 0, MAX_SIZE) for v in value]

    def _checked(self, key: str, value: object, least: int, most: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"is {shown(value)}, expected a whole number")
        if not least <= value <= most:
            raise self.error(key, f"is {value:,}, expected {least:,} to {most:,}")
        return value
