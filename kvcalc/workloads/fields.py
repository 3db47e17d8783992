"""Trace formats by their fields: what each calls time, prompt, output and shared blocks.

Azure 2023 and 2024 (`TIMESTAMP,ContextTokens,GeneratedTokens`), Mooncake (`timestamp` in ms,
`hash_ids` of 512 tokens), Qwen-Bailian (`timestamp` in s, `hash_ids` of 16), BurstGPT, vidur,
LLMServingSim, and kvcalc's own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kvcalc.core.errors import nearest


class Format(NamedTuple):
    """Names of a format's fields. Times are divided by `per_second`; 0: date and time of day."""

    name: str
    prompt: str
    output: str
    time: str | None = None
    per_second: int = 1
    #: Tokens of a block of `hash_ids`; None if the file's first lines must tell.
    block: int | None = None
    #: Further fields that tell it from another of the same names.
    marks: tuple[str, ...] = ()
    #: Times start at the first request's.
    relative: bool = False
    steps: bool = False


_OWN = ("kvcalc", "prompt_tokens", "output_tokens")
FORMATS = (
    Format(*_OWN, time="arrival_seconds"),
    Format(*_OWN, time="arrival_step", steps=True),
    Format(*_OWN),
    Format("azure", "ContextTokens", "GeneratedTokens", "TIMESTAMP", 0, relative=True),
    Format("burstgpt", "Request tokens", "Response tokens", "Timestamp"),
    Format("qwen-bailian", "input_length", "output_length", "timestamp", block=16,
           marks=("chat_id",)),
    Format("qwen-bailian", "input_length", "output_length", "timestamp", block=16,
           marks=("turn",)),
    Format("mooncake", "input_length", "output_length", "timestamp", 1000),
    Format("vidur", "num_prefill_tokens", "num_decode_tokens", "arrived_at"),
    Format("vidur", "num_prefill_tokens", "num_decode_tokens"),
    Format("llmservingsim", "input_toks", "output_toks", "arrival_time_ns", 10**9),
)  # fmt: skip
#: Block sizes tried, in order, where a format leaves them open.
BLOCKS = (512, 16)


def format_of(fields: Collection[str]) -> Format | None:
    """The format whose fields these are, case and blanks ignored; the first of several."""
    names = {_plain(field) for field in fields}
    for known in FORMATS:
        wanted = (known.prompt, known.output, *filter(None, (known.time,)), *known.marks)
        if all(_plain(field) in names for field in wanted):
            return known
    return None


def place_of(field: str, header: list[str]) -> int:
    """The column of a field."""
    return [_plain(name) for name in header].index(_plain(field))


def hint_for(fields: Collection[str]) -> str:
    """What to do about fields of no known format."""
    known = sorted({f for fmt in FORMATS for f in (fmt.prompt, fmt.output)})
    for field in fields:
        close = nearest(field, known, 1)
        if close:
            return f"nearest: {close[0]}; a line needs prompt_tokens and output_tokens"
    return "a line needs prompt_tokens and output_tokens, or the fields of a public trace set"


def _plain(field: str) -> str:
    return field.strip().lower().replace(" ", "_")
