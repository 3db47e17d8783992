"""`python -m sglang.launch_server …` and `sglang serve …`: SGLang's flags as of 0.5.

Source: SGLang `srt/server_args.py`; numbers are read as its human_readable_int reads them.
"""

from __future__ import annotations

from typing import Any

from kvcalc.launch.flags import Flag, Launch, Reading, walk
from kvcalc.launch.line import Line

_FORMATS = {
    "fp8": "fp8", "w8a8_fp8": "fp8", "w8a8_int8": "int8", "awq": "awq", "awq_marlin": "awq",
    "gptq": "gptq", "gptq_marlin": "gptq", "bitsandbytes": "nf4", "mxfp4": "mxfp4",
    "modelopt_fp4": "nvfp4",
}  # fmt: skip


def _quantised(reading: Reading, value: Any) -> None:
    found = _FORMATS.get(str(value).lower())
    if found is not None:
        reading.options["weights"] = found


def _context(reading: Reading, value: Any) -> None:
    if value != "auto":
        reading.options["context"] = value


def _algorithm(reading: Reading, value: Any) -> None:
    reading.settings["speculative_algorithm"] = str(value).lower()


def _chunk(reading: Reading, value: Any) -> None:
    # -1 turns chunks off.
    if isinstance(value, int) and value > 0:
        reading.settings["chunked_prefill_size"] = value


FLAGS = (
    Flag(("--model-path", "--model"), "text", "model"),
    Flag(("--context-length",), "human", then=_context),
    Flag(("--tensor-parallel-size", "--tp-size", "--tp"), "int", "tp"),
    Flag(("--pipeline-parallel-size", "--pp-size", "--pp"), "int", "pp"),
    Flag(("--data-parallel-size", "--dp-size", "--dp", "--attn-dp-size"), "int", "dp"),
    Flag(("--expert-parallel-size", "--ep-size", "--ep"), "int", "ep"),
    Flag(("--dcp-size",), "int", "dcp"),
    Flag(("--kv-cache-dtype",), "text", "kv_dtype"),
    Flag(("--dtype",), "dtype", "dtype"),
    Flag(("--quantization",), "text", then=_quantised),
    Flag(("--mem-fraction-static",), "number", "=mem_fraction_static"),
    Flag(("--max-total-tokens",), "human", "=max_total_tokens"),
    Flag(("--max-running-requests",), "human", "=max_running_requests"),
    Flag(("--chunked-prefill-size",), "human", then=_chunk),
    Flag(("--page-size",), "int", "=page_size"),
    Flag(("--cuda-graph-max-bs",), "int", "=cuda_graph_max_bs"),
    Flag(("--disable-cuda-graph",), "switch", "=disable_cuda_graph"),
    Flag(("--disable-radix-cache",), "switch", "=disable_radix_cache"),
    Flag(("--disable-hybrid-swa-memory",), "switch", "=disable_hybrid_swa_memory"),
    Flag(("--swa-full-tokens-ratio",), "number", "=swa_full_tokens_ratio"),
    Flag(("--mamba-full-memory-ratio",), "number", "=mamba_full_memory_ratio"),
    Flag(("--max-mamba-cache-size",), "int", "=max_mamba_cache_size"),
    Flag(("--mamba-ssm-dtype",), "text", "=mamba_ssm_dtype"),
    Flag(("--enable-dp-attention",), "switch", "=enable_dp_attention"),
    Flag(("--speculative-algorithm", "--speculative-algo"), "text", then=_algorithm),
    Flag(("--speculative-num-draft-tokens",), "int", "=speculative_num_draft_tokens"),
    Flag(("--hicache-size",), "number", "=hicache_size"),
    # What follows says nothing of memory; named so that values are told from the model.
    Flag(("--served-model-name", "--lora-paths", "--cuda-graph-bs", "--json-model-override-args",
          "--tokenizer-path", "--tokenizer-mode", "--host", "--port", "--api-key",
          "--chat-template", "--tool-call-parser", "--reasoning-parser", "--attention-backend",
          "--sampling-backend", "--schedule-policy", "--schedule-conservativeness",
          "--max-prefill-tokens", "--random-seed", "--log-level", "--nnodes", "--node-rank",
          "--dist-init-addr", "--load-format", "--revision", "--device", "--grammar-backend",
          "--speculative-draft-model-path", "--speculative-num-steps", "--speculative-eagle-topk",
          "--disaggregation-mode", "--hicache-ratio", "--hicache-write-policy",
          "--cpu-offload-gb", "--moe-a2a-backend", "--moe-runner-backend", "--stream-interval",
          "--watchdog-timeout", "--fp8-gemm-backend", "--download-dir"), "text"),
    Flag(("--trust-remote-code", "--enable-metrics", "--enable-torch-compile", "--log-requests",
          "--enable-mixed-chunk", "--disable-overlap-schedule", "--skip-tokenizer-init",
          "--enable-hierarchical-cache", "--enable-p2p-check", "--is-embedding",
          "--enable-multimodal", "--disable-custom-all-reduce", "--enable-dp-lm-head",
          "--show-time-cost", "--enable-cache-report", "--skip-server-warmup",
          "--enable-ep-moe", "--enable-deepep-moe", "--enable-two-batch-overlap"), "switch"),
)  # fmt: skip


def parse(line: Line) -> Launch:
    """What an SGLang command says; without --context-length the model's maximum holds."""
    reading = Reading("sglang")
    walk(reading, line.words, FLAGS)
    options = reading.options
    if reading.settings.get("enable_dp_attention"):
        # Attention's data-parallel ranks are taken out of the tensor-parallel ones.
        options["tp"] = max(int(options.get("tp", 1)) // int(options.get("dp", 1)), 1)
    if line.environment.get("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "0") not in {"", "0"}:
        options["allow_long_context"] = True
    if line.environment.get("SGLANG_PP_LAYER_PARTITION"):
        options["pp_layers"] = line.environment["SGLANG_PP_LAYER_PARTITION"].split(",")
    if line.version is not None:
        options["engine_version"] = line.version
    return reading.done("model")
