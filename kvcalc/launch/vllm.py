"""`vllm serve …` and its older module form: vLLM's flags as of 0.33, and names before it.

Source: vLLM `engine/arg_utils.py` and `entrypoints/cli/serve.py`; numbers are read as its
human_readable_int reads them.
"""

from __future__ import annotations

import re
from typing import Any

from kvcalc.launch.flags import Flag, Launch, Reading, walk
from kvcalc.launch.line import Line

#: --quantization → --weights; methods that only name the checkpoint's own format are left out.
_FORMATS = {
    "fp8": "fp8", "bitsandbytes": "nf4", "awq": "awq", "awq_marlin": "awq", "gptq": "gptq",
    "gptq_marlin": "gptq", "mxfp4": "mxfp4", "modelopt_fp4": "nvfp4",
}  # fmt: skip


def _context(reading: Reading, value: Any) -> None:
    if value == "auto":
        # The engine itself takes the longest that fits.
        reading.options["solve"] = "context"
    else:
        reading.options["context"] = value


def _quantised(reading: Reading, value: Any) -> None:
    found = _FORMATS.get(str(value).lower())
    if found is not None:
        reading.options["weights"] = found


def _speculative(reading: Reading, value: Any) -> None:
    """Draft tokens; prediction heads and EAGLE are a layer of their own, n-grams none."""
    if not isinstance(value, dict):
        return
    tokens = value.get("num_speculative_tokens")
    if isinstance(tokens, str) and tokens.isdecimal():
        tokens = int(tokens)
    if isinstance(tokens, int) and not isinstance(tokens, bool):
        reading.settings["num_speculative_tokens"] = tokens
    method = str(value.get("method", "")).lower()
    if re.search(r"ngram|suffix", method):
        reading.settings["num_draft_layers"] = 0
    elif value.get("model") and not re.search(r"eagle|mtp|medusa", method):
        reading.ignored.append(f"the draft model {value['model']}")


def _compilation(reading: Reading, value: Any) -> None:
    if isinstance(value, int):
        value = {"level": value}
    if not isinstance(value, dict):
        return
    sizes = value.get("cudagraph_capture_sizes")
    if isinstance(sizes, list) and sizes:
        reading.settings["cudagraph_capture_sizes"] = ",".join(map(str, sizes))
    most = value.get("max_cudagraph_capture_size")
    if isinstance(most, int):
        reading.settings["max_cudagraph_capture_size"] = most
    if str(value.get("cudagraph_mode", "")).upper() == "NONE":
        reading.settings["enforce_eager"] = True


def _overrides(reading: Reading, value: Any) -> None:
    """Overrides of the config: a longer maximum is allowed, others are named."""
    if not isinstance(value, dict):
        return
    text = value.get("text_config")
    merged = {**value, **(text if isinstance(text, dict) else {})}
    for key in merged:
        if key in {"max_position_embeddings", "rope_scaling", "rope_parameters"}:
            reading.options["allow_long_context"] = True
        elif key != "text_config":
            reading.ignored.append(f"--hf-overrides {key}")


def _longer(reading: Reading, value: Any) -> None:
    if value:
        reading.options["allow_long_context"] = True


def _optimisation(reading: Reading, value: Any) -> None:
    if value == 0:
        reading.settings["enforce_eager"] = True


def _sizes(reading: Reading, value: Any) -> None:
    reading.settings["cudagraph_capture_sizes"] = ",".join(re.split(r"[\s,]+", str(value).strip()))


def _adapters(reading: Reading, value: Any) -> None:
    if value:
        reading.settings.setdefault("max_loras", 1)


def _experts(reading: Reading, value: Any) -> None:
    reading.options["ep"] = "all" if value else 1


def _switch(name: str, to: str) -> tuple[Flag, Flag]:
    """--name and --no-name."""
    return Flag((f"--{name}",), "switch", to), Flag((f"--no-{name}",), "switch", to, value=False)


FLAGS = (
    Flag(("--model", "--model-tag"), "text", "model"),
    Flag(("--max-model-len",), "human", then=_context),
    Flag(("--max-num-seqs",), "human", "=max_num_seqs"),
    Flag(("--max-num-batched-tokens",), "human", "=max_num_batched_tokens"),
    Flag(("--tensor-parallel-size", "-tp"), "int", "tp"),
    Flag(("--pipeline-parallel-size", "-pp"), "int", "pp"),
    Flag(("--data-parallel-size", "-dp"), "int", "dp"),
    Flag(("--decode-context-parallel-size", "-dcp"), "int", "dcp"),
    Flag(("--enable-expert-parallel", "-ep"), "switch", then=_experts),
    Flag(("--gpu-memory-utilization",), "number", "utilization"),
    Flag(("--kv-cache-memory-bytes", "--kv-cache-memory"), "human", "=kv_cache_memory_bytes"),
    Flag(("--kv-cache-dtype",), "text", "kv_dtype"),
    Flag(("--dtype",), "dtype", "dtype"),
    Flag(("--quantization", "-q"), "text", then=_quantised),
    Flag(("--block-size",), "int", "block_size"),
    Flag(("--swap-space", "--cpu-offload-gb", "--num-gpu-blocks-override", "--max-logprobs",
          "--kv-offloading-size", "--mamba-block-size"), "text"),
    *_switch("enforce-eager", "=enforce_eager"),
    *_switch("enable-prefix-caching", "=enable_prefix_caching"),
    *_switch("enable-chunked-prefill", "=enable_chunked_prefill"),
    *_switch("async-scheduling", "=async_scheduling"),
    *_switch("disable-hybrid-kv-cache-manager", "=disable_hybrid_kv_cache_manager"),
    *_switch("language-model-only", "=language_model_only"),
    Flag(("--enable-lora",), "switch", then=_adapters),
    Flag(("--max-loras",), "int", "=max_loras"),
    Flag(("--max-lora-rank",), "int", "=max_lora_rank"),
    Flag(("--mamba-ssm-cache-dtype",), "text", "=mamba_ssm_cache_dtype"),
    Flag(("--speculative-config", "-sc"), "json", then=_speculative),
    Flag(("--num-speculative-tokens", "--spec-tokens"), "int", "=num_speculative_tokens"),
    Flag(("--compilation-config", "-cc"), "json", then=_compilation),
    Flag(("-O", "--optimization-level"), "int", then=_optimisation),
    Flag(("--cudagraph-capture-sizes", "--cuda-graph-sizes"), "words", then=_sizes),
    Flag(("--max-cudagraph-capture-size",), "int", "=max_cudagraph_capture_size"),
    Flag(("--hf-overrides",), "json", then=_overrides),
    Flag(("--rope-scaling",), "json", then=_longer),
    # What follows says nothing of memory; named so that values are told from the model.
    Flag(("--served-model-name", "--lora-modules", "--allowed-origins", "--allowed-methods",
          "--allowed-headers", "--api-key", "--middleware", "--limit-mm-per-prompt",
          "--default-mm-loras"), "words"),
    Flag(("--enable-auto-tool-choice", "--trust-remote-code", "--disable-log-requests",
          "--disable-log-stats", "--enable-log-requests", "--disable-custom-all-reduce",
          "--enable-sleep-mode", "--enable-reasoning", "--enable-prompt-tokens-details",
          "--enable-server-load-tracking", "--disable-fastapi-docs", "--headless",
          "--disable-frontend-multiprocessing", "--enable-force-include-usage",
          "--disable-uvicorn-access-log", "--enable-log-outputs", "--use-v2-block-manager",
          "--enable-eplb", "--skip-mm-profiling", "--no-enable-log-requests",
          "--calculate-kv-scales", "--skip-tokenizer-init", "--enable-dbo"), "switch"),
    Flag(("--host", "--port", "--tokenizer", "--tokenizer-mode", "--revision", "--seed",
          "--tool-call-parser", "--reasoning-parser", "--chat-template", "--download-dir",
          "--load-format", "--config-format", "--distributed-executor-backend", "--config",
          "--uvicorn-log-level", "--generation-config", "--kv-transfer-config", "--task",
          "--runner", "--convert", "--attention-backend", "--mm-processor-kwargs",
          "--model-loader-extra-config", "--override-generation-config", "--scheduling-policy",
          "--data-parallel-size-local", "--data-parallel-backend", "--api-server-count",
          "--max-log-len", "--max-seq-len-to-capture", "--additional-config", "--media-io-kwargs",
          "--root-path", "--device", "--guided-decoding-backend", "--all2all-backend"), "text"),
)  # fmt: skip


def parse(line: Line) -> Launch:
    """What a vLLM command says; without --max-model-len the model's maximum holds."""
    reading = Reading("vllm")
    walk(reading, line.words, FLAGS)
    options = reading.options
    if line.environment.get("VLLM_USE_V1") == "0":
        reading.settings["use_v1"] = False
    runner = line.environment.get("VLLM_USE_V2_MODEL_RUNNER")
    if runner in {"0", "1"}:
        reading.settings["use_v2_model_runner"] = runner == "1"
    if line.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") not in {"", "0"}:
        options["allow_long_context"] = True
    if line.environment.get("VLLM_PP_LAYER_PARTITION"):
        options["pp_layers"] = line.environment["VLLM_PP_LAYER_PARTITION"].split(",")
    if options.pop("ep", 1) == "all":
        options["ep"] = int(options.get("tp", 1)) * int(options.get("dp", 1))
    if line.version is not None:
        options["engine_version"] = line.version
    return reading.done("model")
