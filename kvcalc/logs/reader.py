"""A log to what it states: which engine wrote it, its settings, its figures, its refusals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from kvcalc.core.errors import KvcalcError
from kvcalc.logs import llamacpp, lmdeploy, ollama, sglang, tensorrt, torch, vllm
from kvcalc.logs.clean import Tag, clean, compiled, tag_of
from kvcalc.logs.facts import Fact, Log, Refusal
from kvcalc.logs.infer import inferred, workers
from kvcalc.logs.llamacpp_model import keyed
from kvcalc.logs.scan import Hit, Scan, is_open, scan
from kvcalc.logs.stream import chunks, log_name
from kvcalc.logs.wording import Sink

FAMILIES = (
    vllm.FAMILY, sglang.FAMILY, llamacpp.FAMILY, ollama.FAMILY, tensorrt.FAMILY, lmdeploy.FAMILY,
    torch.FAMILY,
)  # fmt: skip
#: Messages that one line may hold: glued ones are two or three.
_MOST_GLUED = 32
#: Lines that a terminal's break may have cut off.
_MOST_JOINED = 4
#: llama.cpp's lines as Ollama's service or container passes them on, or of a model in its store.
_OLLAMA = (
    r"\bollama(?:-[0-9]+)?\[[0-9]+\]: |^\s*ollama[\w.-]* +\| "
    r"|[\\/]\.ollama[\\/]models[\\/]blobs[\\/]"
)


def read_log(path: str) -> Log:
    """What the start-up log at `path` states; "-" is standard input, gzip is unpacked.

    A log that is cut, interleaved or of an unknown version gives what it holds.

    Raises:
        KvcalcError: "unreadable_input" if it cannot be read, is no text, or no engine's log.
    """
    name = log_name(path)
    found = scan(chunks(path), FAMILIES, name)
    sink = Sink()
    for hit in found.hits:
        _read(hit, sink)
    engine = _engine(sink)
    if engine is None:
        raise KvcalcError(
            "unreadable_input", f"{name}: holds no start-up line of an engine kvcalc knows",
            "vLLM, SGLang, llama.cpp, Ollama, TensorRT-LLM and LMDeploy (--log-level INFO) do",
        )  # fmt: skip
    return _log(name, engine, sink, found)


def facts_of(lines: Sequence[str]) -> tuple[list[Fact], list[Refusal]]:
    """What lines say that an engine would print: figures and refusals."""
    sink = Sink()
    for number, line in enumerate(lines, 1):
        sink.line = number
        _apply(line, sink, len(line))
    return sink.facts, sink.refusals


def _read(hit: Hit, sink: Sink) -> None:
    """Apply every wording whose words the line holds; of none, try it with the lines after it."""
    sink.line = hit.line
    text = clean(hit.text).rstrip()
    if "ollama" in text and compiled(_OLLAMA).search(text):
        sink.marks.add("ollama")
    lines = [clean(part).strip() for part in hit.after.split(b"\n")]
    if _apply(text, sink, len(text), lines if is_open(hit.text) else ()):
        return
    rest = lines[:_MOST_JOINED]
    for count in range(1, len(rest) + 1):
        for gap in ("", " "):
            if _apply(gap.join([text, *rest[:count]]), sink, len(text)):
                return


def _apply(text: str, sink: Sink, end: int, after: Sequence[str] = ()) -> bool:
    """Whether any wording matched whose words stand before `end`: later lines have their own."""
    found = False
    for family in FAMILIES:
        for wording in family.wordings:
            if wording.anchor not in text:
                continue
            whole = text + "".join(after) if wording.spans and after else text
            for match in islice(compiled(wording.pattern).finditer(whole), _MOST_GLUED):
                if whole.find(wording.anchor, match.start()) >= end:
                    break
                found = True
                sink.text, sink.tag = whole, _tag(whole[: match.start()], text)
                sink.take(family.name, wording, match)
    return found


def _tag(before: str, text: str) -> Tag:
    """The tag nearest before the words; of a bare line none."""
    tag = tag_of(before)
    return tag if tag.start >= 0 else tag_of(text)


def _engine(sink: Sink) -> str | None:
    """Whose log it is: Ollama's runner prints llama.cpp's lines, a fork says so by its words."""
    stated = {name: count for name, count in sink.hits.items() if name != "torch"}
    if "ollama" in stated:
        return "ollama"
    if not stated:
        # PyTorch's own sentence names no engine.
        return None
    best = max(stated, key=lambda name: stated[name])
    if best == "llama.cpp" and "ollama" in sink.marks:
        return "ollama"
    if best == "llama.cpp" and "ik" in sink.marks:
        return "ik_llama.cpp"
    return best


def _log(name: str, engine: str, sink: Sink, found: Scan) -> Log:
    facts = _sorted_out(sink.facts, engine)
    follows = inferred(engine, facts, sink.settings)
    return Log(
        name=name,
        engine=engine,
        version=sink.version,
        model=sink.model,
        settings={**sink.settings, **{name: value for name, (value, _) in follows.items()}},
        facts=tuple(facts),
        refusals=tuple(sink.refusals),
        metadata=keyed(sink.metadata),
        devices=tuple(sink.devices),
        ranks=workers(facts),
        inferred={name: why for name, (_, why) in follows.items()},
        marks=frozenset(sink.marks),
        starts=found.starts,
        lines=found.lines,
        bytes=found.bytes,
        ready=sink.ready,
        earlier=found.earlier,
    )


def _sorted_out(facts: list[Fact], engine: str) -> list[Fact]:
    """Ollama's own engine allocates what device.go prints; before llama.cpp it is the estimate."""
    if engine != "ollama" or any(f.item == "kv_cache" for f in facts):
        return facts
    names = {
        "estimated_weights": "weights", "estimated_kv": "kv_pool", "estimated_compute": "compute",
        "estimated_total": "total",
    }  # fmt: skip
    return [
        f._replace(item=names[f.item], note="") if f.note == "device" and f.item in names else f
        for f in facts
    ]
