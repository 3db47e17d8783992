"""Familiar spellings: one pass over argv that turns engines' names into kvcalc's own.

Only up to the first `--`; what follows is a pasted launch line with its own rules.
"""

from __future__ import annotations

#: Engine spelling → kvcalc option (vLLM 0.33, SGLang 0.5, llama.cpp, TensorRT-LLM, LMDeploy).
RENAMED = {
    "--max-model-len": "--context",
    "--context-length": "--context",
    "--max-seq-len": "--context",
    "--seq-len": "--context",
    "--session-len": "--context",
    "--users": "--requests",
    "--concurrency": "--requests",
    "--agents": "--requests",
    "--sessions": "--requests",
    "-tp": "--tp",
    "--tensor-parallel-size": "--tp",
    "--tp-size": "--tp",
    "-pp": "--pp",
    "--pipeline-parallel-size": "--pp",
    "--pp-size": "--pp",
    "--pp-layer-partition": "--pp-layers",
    "-dp": "--dp",
    "--data-parallel-size": "--dp",
    "--dp-size": "--dp",
    "-dcp": "--dcp",
    "--decode-context-parallel-size": "--dcp",
    "--dcp-size": "--dcp",
    "--ep-size": "--ep",
    "--kv-cache-dtype": "--kv-dtype",
    "-ctk": "--k-dtype",
    "--cache-type-k": "--k-dtype",
    "-ctv": "--v-dtype",
    "--cache-type-v": "--v-dtype",
    "--gpu-memory-utilization": "--utilization",
    "--kv-cache-memory-bytes": "--kv-pool",
    "--max-total-tokens": "--kv-pool-tokens",
    "--page-size": "--block-size",
    "--tokens-per-block": "--block-size",
    "--cache-block-seq-len": "--block-size",
    "--quantization": "--weights",
    "--chunk-size": "--chunk-tokens",
    "--rps": "--requests-per-second",
    "--link": "--bandwidth",
    "--isl": "--prompt",
    "--input-len": "--prompt",
    "--osl": "--output",
    "--output-len": "--output",
    "--num-layers": "--layers",
    "--num-hidden-layers": "--layers",
    "--num-kv-heads": "--kv-heads",
    "--num-key-value-heads": "--kv-heads",
    "--num-attention-heads": "--query-heads",
    "--max-position-embeddings": "--max-context-length",
}
#: Spellings of the --output that counts tokens.
_TOKENS = ("--osl", "--output-len")
#: Engine spelling → setting of that name, given as --set NAME=VALUE.
SETTINGS = {
    "--ctx-size": "n_ctx",
    "--num-ctx": "num_ctx",
    "-np": "n_seq_max",
    "--parallel": "n_seq_max",
    "--max-num-seqs": "max_num_seqs",
    "--max-num-batched-tokens": "max_num_batched_tokens",
    "--max-running-requests": "max_running_requests",
    "--max-batch-size": "max_batch_size",
    "--mem-fraction-static": "mem_fraction_static",
    "--chunked-prefill-size": "chunked_prefill_size",
    "--swa-full-tokens-ratio": "swa_full_tokens_ratio",
    "--cache-max-entry-count": "cache_max_entry_count",
    "--free-gpu-memory-fraction": "free_gpu_memory_fraction",
    "--kv-cache-free-gpu-memory-fraction": "free_gpu_memory_fraction",
    "--hicache-size": "hicache_size",
    "--hicache-ratio": "hicache_ratio",
    "--kv-offloading-size": "kv_offloading_size",
    "--cache-ram": "cache_ram",
    "-cram": "cache_ram",
    "--max-local-cpu-size": "max_local_cpu_size",
    "--max-local-disk-size": "max_local_disk_size",
    "-ub": "n_ubatch",
    "--ubatch-size": "n_ubatch",
    "-ngl": "n_gpu_layers",
    "--n-gpu-layers": "n_gpu_layers",
}
#: Engine switches without a value.
SWITCHES = {
    "--swa-full": "swa_full=true",
    "-kvu": "kv_unified=true",
    "--kv-unified": "kv_unified=true",
    "--enforce-eager": "enforce_eager=true",
    "--disable-hybrid-kv-cache-manager": "disable_hybrid_kv_cache_manager=true",
}
#: Options that --solve knows beside the engines' settings.
_SOLVABLE = frozenset({"--context", "--requests", "--utilization", "--kv-dtype"})
#: Spellings of the positional MODEL.
MODEL = ("--model", "--model-path", "--model-id", "-m", "-hf")


def normalise(argv: list[str], own: frozenset[str], flags: frozenset[str]) -> list[str]:
    """argv with familiar spellings replaced.

    `own` are the command's options, which win over a spelling of the same name; `flags` those of
    them without a value. A word that is the value of an option is never touched.
    """
    argv = _joined(argv)
    out: list[str] = []
    models: list[str] = []
    i = 0
    while i < len(argv):
        word = argv[i]
        i += 1
        if word == "--":
            out += argv[i - 1 :]
            break
        if not word.startswith("-") or word == "-":
            out.append(word)
            continue
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = name.replace("_", "-")
        if name in SWITCHES and name not in own:
            out += ["--set", SWITCHES[name]]
            continue
        if not _takes_value(name, own, flags):
            out.append(name + equals + value)
            continue
        if not equals:
            if i == len(argv):
                out.append(RENAMED.get(name, name))
                continue
            value = argv[i]
            i += 1
        if name in own:
            out += [name, _solvable(value) if name == "--solve" else value]
        elif name in MODEL:
            models.append(value)
        elif name in RENAMED:
            out += [RENAMED[name], value]
        else:
            out += ["--set", f"{SETTINGS[name]}={value}"]
    return models + out


def _joined(argv: list[str]) -> list[str]:
    """`--solve setting NAME` is one value, as `--solve NAME` is."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    for i in range(end - 3, -1, -1):
        if words[i : i + 2] == ["--solve", "setting"] and not words[i + 2].startswith("-"):
            del words[i + 1]
    return words


def _solvable(what: str) -> str:
    """What --solve names by an engine's spelling: max-model-len is the context."""
    flag = f"--{what.replace('_', '-')}"
    own = RENAMED.get(flag, "")
    return own[2:] if own in _SOLVABLE else SETTINGS.get(flag, what)


def _takes_value(name: str, own: frozenset[str], flags: frozenset[str]) -> bool:
    if name in flags or (name in _TOKENS and "--prompt" not in own):
        return False  # a flag; or tokens where --output is a file
    return name in own or name in RENAMED or name in SETTINGS or name in MODEL
