"""`lmdeploy serve api_server MODEL …`: LMDeploy's flags, as of 0.10."""

from __future__ import annotations

from typing import Any

from kvcalc.launch.flags import Flag, Launch, Reading, walk
from kvcalc.launch.line import Line

_FORMATS = {"awq": "awq", "gptq": "gptq", "fp8": "fp8", "mxfp4": "mxfp4"}


def _format(reading: Reading, value: Any) -> None:
    found = _FORMATS.get(str(value).lower())
    if found is not None:
        reading.options["weights"] = found


def _policy(reading: Reading, value: Any) -> None:
    """Bits of K and V; 0 keeps the model's dtype."""
    reading.settings["quant_policy"] = str(value)
    if value in {4, 8}:
        reading.options["kv_dtype"] = f"int{value}"


FLAGS = (
    Flag(("--session-len",), "int", "context"),
    Flag(("--tp",), "int", "tp"),
    Flag(("--dp",), "int", "dp"),
    Flag(("--ep",), "int", "ep"),
    Flag(("--dtype",), "dtype", "dtype"),
    Flag(("--quant-policy",), "int", then=_policy),
    Flag(("--model-format",), "text", then=_format),
    Flag(("--cache-max-entry-count",), "number", "=cache_max_entry_count"),
    Flag(("--cache-block-seq-len",), "int", "=cache_block_seq_len"),
    Flag(("--max-batch-size",), "int", "=max_batch_size"),
    Flag(("--max-prefill-token-num",), "int", "=max_prefill_token_num"),
    Flag(("--backend",), "text", "=backend"),
    # What follows says nothing of memory; named so that values are told from the model.
    Flag(("--server-name", "--server-port", "--model-name", "--chat-template", "--log-level",
          "--api-keys", "--revision", "--download-dir", "--device", "--rope-scaling-factor",
          "--tool-call-parser", "--reasoning-parser", "--hf-overrides", "--max-log-len",
          "--proxy-url", "--communicator", "--role", "--adapters", "--num-tokens-per-iter",
          "--max-prefill-iters"), "text"),
    Flag(("--enable-prefix-caching", "--trust-remote-code", "--ssl", "--eager-mode",
          "--enable-metrics", "--disable-fastapi-docs", "--allow-terminate-by-client"), "switch"),
)  # fmt: skip


def parse(line: Line) -> Launch:
    """What lmdeploy is told; without --session-len the model's maximum holds."""
    reading = Reading("lmdeploy")
    words = list(line.words)
    if words[:1] in (["api_server"], ["gradio"]):
        words = words[1:]
    walk(reading, words, FLAGS)
    if line.version is not None:
        reading.options["engine_version"] = line.version
    return reading.done("model")
