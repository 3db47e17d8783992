"""The one expected failure: kvcalc could not answer, and says what to do."""

from __future__ import annotations

#: Every code that `errors[].code` of the JSON envelope may hold.
CODES = (
    "usage",
    "unknown_model",
    "unknown_gpu",
    "unknown_engine",
    "unknown_setting",
    "unknown_dtype",
    "unsupported_architecture",
    "invalid_config",
    "invalid_preset",
    "context_too_long",
    "not_divisible",
    "unreadable_input",
    "invalid_trace",
    "output_failed",
    "missing_extra",
    "internal",
)


class KvcalcError(Exception):
    """What kvcalc could not do, where, and what would help; never a bug.

    Args:
        code: One of `CODES`.
        message: One line naming what is wrong and where.
        hint: One line saying what to do, or None.
    """

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def nearest(word: str, names: list[str], count: int = 3) -> list[str]:
    """The names that `word` was probably meant to be, best first."""
    import difflib  # noqa: PLC0415 - only an error needs it

    return difflib.get_close_matches(word.lower(), names, n=count, cutoff=0.5)
