"""A raw log line to the engine's own words: wrappers taken off, the process that wrote it found."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

#: Colours; the escape character is often lost where a log was pasted ("[0;36m").
_COLOURS = (
    r"(?:\x1b|\^\[|\\x1b|\\u001b|\\033|\u241b)\[[0-9;?]*[A-Za-z]|\[(?:[0-9]{1,3};)*[0-9]{1,3}m"
)
_CONTROLS = r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
#: Keys under which a JSON log line holds the text.
_JSON_KEYS = ("log", "message", "msg", "textPayload", "MESSAGE", "line")

_VLLM_TAG = (
    r"\((?P<kind>VllmWorkerProcess|VllmWorker|RayWorkerWrapper|RayWorkerProc|RayTrainWorker"
    r"|EngineCore|Worker|APIServer|ApiServer|CPUWorker)"
    r"(?P<where>[A-Za-z0-9_]*) ?(?P<more>[A-Z]+[0-9]+|rank=[0-9]+)? ?"
    r"pid=(?P<pid>[0-9]+)(?:, ip=(?P<ip>[0-9a-fA-F.:]+))?\)"
)
_SGLANG_TAG = (
    r"\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.,]+"
    r"(?P<sg>(?: (?:DP|TP|EP|PP|CP|ATTN|MOE|DCP)[A-Z_]*[0-9]+)+)\]"
    r"|\[[0-9]{2}:[0-9]{2}:[0-9]{2}(?P<sg3>(?: (?:DP|TP|EP|PP)[0-9]+)+)\]"
    r"|\[gpu_id=(?P<gpu>[0-9]+)\]"
)
_RANK_TAG = r"\[RANK (?P<rank>[0-9]+)\]|\[rank(?P<rank2>[0-9]+)\]:|\[[0-9]+,(?P<rank3>[0-9]+)\]<std"
#: Processes of one vLLM that serve or schedule, but hold no model.
_HEADS = frozenset({"EngineCore", "APIServer", "ApiServer"})


class Tag(NamedTuple):
    """The process that wrote a line: its label, and whether it is a worker that holds a model."""

    label: str = ""
    worker: bool = True
    #: Where the tag stands in the line.
    start: int = -1


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled at its first use: a log needs few of all there are."""
    return re.compile(pattern)


def clean(raw: bytes) -> str:
    """The line without colours and controls, nor the JSON that a container wrapped it in."""
    text = raw.decode("utf-8", "replace")
    if text.lstrip()[:1] == "{":
        text = _unwrapped(text)
    if "[" in text:
        text = compiled(_COLOURS).sub("", text)
    # What a log says is shown on a terminal, which must not obey it.
    return text if text.isprintable() else compiled(_CONTROLS).sub("", text)


def _unwrapped(text: str) -> str:
    """The text in a JSON log line; the line itself if it holds none."""
    import json  # noqa: PLC0415 - few logs are JSON

    try:
        found = json.loads(text)
    except ValueError:
        return text.replace('\\"', '"')
    except RecursionError:
        return text
    if not isinstance(found, dict):
        return text
    values = (found.get(key) for key in _JSON_KEYS)
    return next((value for value in values if isinstance(value, str)), text)


def tag_of(text: str) -> Tag:
    """The last tag in a line (of two glued prefixes the nearer one); an empty one without."""
    best = Tag()
    if "pid=" in text:
        for m in compiled(_VLLM_TAG).finditer(text):
            best = Tag(_vllm_label(m), m["kind"] not in _HEADS, m.start())
    for pattern in (_SGLANG_TAG, _RANK_TAG):
        for m in compiled(pattern).finditer(text):
            if m.start() > best.start:
                best = Tag(_other_label(m), worker=True, start=m.start())
    return best


def _vllm_label(m: re.Match[str]) -> str:
    """Worker_DP1_TP0 is "DP1 TP0", EngineCore_0 "DP0", VllmWorkerProcess pid=535 "pid 535"."""
    words = [w for w in (m["where"] or "").split("_") if w]
    if m["more"]:
        words.append(m["more"].replace("=", " "))
    if m["kind"] == "EngineCore":
        words = [f"DP{w}" if w.isdecimal() else w for w in words]
    if words:
        return " ".join(words)
    if m["kind"] in _HEADS or m["kind"] == "Worker":
        return ""
    return f"pid {m['pid']}" + (f" at {m['ip']}" if m["ip"] else "")


def _other_label(m: re.Match[str]) -> str:
    groups = m.groupdict()
    named = groups.get("sg") or groups.get("sg3")
    if named:
        return str(named).strip()
    number = next(v for k, v in groups.items() if v is not None and k not in {"sg", "sg3"})
    return f"{'gpu' if groups.get('gpu') else 'rank'} {number}"
