"""`trtllm-serve MODEL …`: TensorRT-LLM's flags, as of 1.2."""

from __future__ import annotations

from kvcalc.launch.flags import Flag, Launch, Reading, walk
from kvcalc.launch.line import Line

FLAGS = (
    Flag(("--model",), "text", "model"),
    Flag(("--max-seq-len",), "int", "context"),
    Flag(("--tp-size", "--tensor-parallel-size"), "int", "tp"),
    Flag(("--pp-size", "--pipeline-parallel-size"), "int", "pp"),
    Flag(("--ep-size", "--moe-expert-parallel-size"), "int", "ep"),
    Flag(("--kv-cache-dtype",), "text", "kv_dtype"),
    Flag(("--max-batch-size",), "int", "=max_batch_size"),
    Flag(("--max-num-tokens",), "int", "=max_num_tokens"),
    Flag(("--kv-cache-free-gpu-memory-fraction", "--free-gpu-memory-fraction",
          "--kv-cache-free-gpu-mem-fraction"), "number", "=free_gpu_memory_fraction"),
    Flag(("--tokens-per-block",), "int", "=tokens_per_block"),
    Flag(("--enable-attention-dp",), "switch", "=enable_attention_dp"),
    # What follows says nothing of memory; named so that values are told from the model.
    Flag(("--host", "--port", "--backend", "--tokenizer", "--extra-llm-api-options", "--config",
          "--extra-options", "--max-beam-width", "--cluster-size", "--gpus-per-node",
          "--reasoning-parser", "--tool-parser", "--log-level", "--num-postprocess-workers",
          "--metadata-server-config-file", "--server-role", "--revision"), "text"),
    Flag(("--trust-remote-code", "--fail-fast-on-attention-window-too-large",
          "--enable-chunked-prefill"), "switch"),
)  # fmt: skip


def parse(line: Line) -> Launch:
    """What trtllm-serve is told; without --max_seq_len the model's maximum holds."""
    reading = Reading("tensorrt-llm")
    words = line.words[1:] if line.words[:1] == ["serve"] else line.words
    walk(reading, words, FLAGS)
    if line.version is not None:
        reading.options["engine_version"] = line.version
    return reading.done("model")
