"""PyTorch's and the runtimes' own words when memory runs out: any engine may print them."""

from __future__ import annotations

from kvcalc.logs.facts import UNITS, Fact, printed
from kvcalc.logs.wording import Family, Match, Sink, Wording

#: Sizes in the sentence come in any of these.
_SIZE = r"([0-9.]+) (KiB|MiB|GiB|TiB|bytes)"


def _out_of_memory(m: Match, sink: Sink) -> None:
    """What was asked for, and what was free."""
    sink.refuse(
        "out_of_memory", m[0],
        needed_bytes=_sized(sink, "asked", m[1], m[2]),
        available_bytes=_sized(sink, "free", m[4], m[5]) if m[4] else None,
    )  # fmt: skip
    total = m[3]
    if total:
        sink.figure("memory", total, "GiB")


def _sized(sink: Sink, item: str, digits: str, unit: str) -> Fact:
    value = printed(digits, UNITS.get(unit.upper(), 1), 2)
    return Fact(item, value.value, "bytes", value.low, value.high, sink.line, sink.tag.label)


def _plain_out_of_memory(m: Match, sink: Sink) -> None:
    if not any(r.code == "out_of_memory" for r in sink.refusals):
        sink.refuse("out_of_memory", m[0])


FAMILY = Family("torch", (
    Wording(
        "Tried to allocate ",
        r"(?:CUDA |HIP |XPU |NPU )?out of memory\. Tried to allocate " + _SIZE
        + r"(?:.{0,80}? has a total capaci?ty of ([0-9.]+) GiB of which " + _SIZE + r" is free)?",
        read=_out_of_memory, late=True,
    ),
    Wording("CUDA error: out of memory", r"(?:CUDA error|RuntimeError): out of memory",
            read=_plain_out_of_memory),
))  # fmt: skip
