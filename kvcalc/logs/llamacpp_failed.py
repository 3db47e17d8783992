"""What llama.cpp and its backends say when memory runs out, and when they did without."""

from __future__ import annotations

from kvcalc.logs.facts import Fact
from kvcalc.logs.wording import Match, Sink, Wording

_G = r"(-?[0-9.]+)"


def _cuda_malloc(m: Match, sink: Sink) -> None:
    fact = sink.figure("asked", m[1], "MiB", m[2])
    if fact is not None:
        sink.facts.pop()
    sink.refuse("out_of_memory", m[0], needed_bytes=fact)


def _no_buffer(m: Match, sink: Sink) -> None:
    """A buffer that could not be made; its bytes where they are told."""
    fact: Fact | None = None
    size = m[1] if m.re.groups else None
    if size:
        fact = sink.add("asked", int(size), "bytes")
        sink.facts.pop()
    if not any(r.code == "out_of_memory" for r in sink.refusals):
        sink.refuse("out_of_memory", m[0], needed_bytes=fact)


def _failed(m: Match, sink: Sink) -> None:
    if not sink.refusals:
        sink.refuse("failed", m[0])


def _retried(m: Match, sink: Sink) -> None:  # noqa: ARG001
    """An allocation failed and was done without: no refusal."""
    sink.refusals = [r for r in sink.refusals if r.code != "out_of_memory"]


FAILED_WORDINGS = (
    Wording("cudaMalloc failed",
            rf"allocating {_G} MiB on device ([0-9]+): cudaMalloc failed[^\n]*",
            read=_cuda_malloc),
    Wording("failed to allocate ",
            r"failed to allocate (?:\S+ )?(?:buffer|compute)\S*(?: (?:of size |for )?([0-9]{1,18})?"
            r"[^\n]*)?", read=_no_buffer),
    Wording("Device memory allocation of size ",
            r"ggml_vulkan: Device memory allocation of size ([0-9]{1,18}) failed", read=_no_buffer),
    Wording("Bytes of memory on device", r"can't allocate ([0-9]{1,18}) Bytes of memory on device",
            read=_no_buffer),
    Wording("CallbackErrorOutOfMemory",
            r"Insufficient Memory \([0-9]+:kIOGPUCommandBufferCallbackErrorOutOfMemory\)",
            read=_no_buffer),
    Wording("ROCm error: out of memory", r"ROCm error: out of memory", read=_no_buffer),
    Wording("unable to allocate ", r"error loading model: unable to allocate \S+ buffer",
            read=_no_buffer),
    Wording("retrying without pipeline", r"retrying without pipeline parallelism", read=_retried,
            figure=False),
    Wording("failed to create context", r"failed to create context with model", read=_failed),
    Wording("failed to load model", r"failed to load model[^\n]{0,80}", read=_failed),
)  # fmt: skip
