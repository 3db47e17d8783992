"""What the metadata of a GGUF architecture says about its layers, as data.

Source: the loaders of llama.cpp 0c1e57098 (`src/models/*.cpp`): which keys an architecture has and
which pattern holds where the file names none.
"""

from __future__ import annotations

from typing import NamedTuple


class Window(NamedTuple):
    """Where sliding-window layers stand.

    Every `period`-th layer is full (the first of each period with `dense_first`), unless the file
    has a pattern; period 0 needs the file's pattern, 1 makes all layers windows. Without
    `attention.sliding_window` the window is `default`, or, if that is 0, every layer is full.
    """

    period: int
    dense_first: bool = False
    default: int = 0
    required: bool = False


#: Full attention in every layer: keys and values of head_count_kv heads.
PLAIN = frozenset(
    {
        "apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bitnet", "bloom",
        "chameleon", "chatglm", "codeshell", "cogvlm", "command-r", "dbrx", "deci", "deepseek",
        "deepseek2-ocr", "dots1", "ernie4_5", "ernie4_5-moe", "exaone", "falcon", "gemma", "glm4",
        "glm4moe", "gpt2", "gptj", "gptneox", "granite", "granitemoe", "grok", "grovemoe",
        "hrm_text", "hunyuan-dense", "hunyuan-moe", "hunyuan_vl", "hy_v3", "internlm2", "jais",
        "jais2", "llama", "llama-embed", "maincoder", "minicpm", "minicpm3", "minimax-m2",
        "minimax-m3", "mistral3", "mpt", "nanbeige", "nemotron", "olmo", "olmoe", "openelm",
        "orion", "paddleocr", "pangu-embedded", "phi2", "phimoe", "plamo", "plm", "qwen", "qwen2",
        "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "refact", "seed_oss",
        "smollm3", "stablelm", "starcoder", "starcoder2", "xverse",
    }
)  # fmt: skip

WINDOWS: dict[str, Window] = {
    "afmoe": Window(4),
    "cohere2": Window(4, required=True),
    "cohere2moe": Window(4, dense_first=True, required=True),
    "exaone-moe": Window(4, required=True),
    "exaone4": Window(4),
    "gemma2": Window(2, default=4096),
    "gemma3": Window(6),
    "gemma3n": Window(5, required=True),
    "gemma4": Window(0, required=True),
    "gpt-oss": Window(2, required=True),
    "granite_swa": Window(0, required=True),
    "laguna": Window(4, dense_first=True),
    "maple": Window(0, required=True),
    "mellum": Window(4),
    "mimo2": Window(0, required=True),
    "muse-glimmer": Window(4, required=True),
    "olmo2": Window(4),
    "phi3": Window(1),
    "plamo3": Window(8),
    "smallthinker": Window(4, dense_first=True),
    "spark2_5": Window(0, required=True),
    "step35": Window(0, required=True),
    "lfm2": Window(1),
}

#: Architecture → (state, how recurrent layers are told). "kv": head_count_kv 0; "kv+ff": and
#: feed_forward_length 0; "interval": recurrent_layers, else every full_attention_interval-th full.
RECURRENT: dict[str, tuple[str, str]] = {
    "mamba": ("mamba1", "all"),
    "mamba2": ("mamba2", "all"),
    "rwkv6": ("rwkv", "all"),
    "rwkv6qwen2": ("rwkv", "all"),
    "rwkv7": ("rwkv", "all"),
    "arwkv7": ("rwkv", "all"),
    "jamba": ("mamba1", "kv"),
    "granitehybrid": ("mamba2", "kv"),
    "plamo2": ("mamba2", "kv"),
    "falcon-h1": ("mamba2", "beside"),
    "nemotron_h": ("mamba2", "kv+ff"),
    "nemotron_h_moe": ("mamba2", "kv+ff"),
    "qwen3next": ("gated_delta_net", "interval"),
    "qwen35": ("gated_delta_net", "interval"),
    "qwen35moe": ("gated_delta_net", "interval"),
    "minimax-01": ("lightning", "interval"),
    "lfm2": ("short_conv", "kv"),
    "lfm2moe": ("short_conv", "kv"),
    "kimi-linear": ("kda", "kv"),
    "kimi-k3": ("kda", "kv"),
    "bailingmoe3": ("kda", "kv"),
    "glm5-next": ("kda", "kv"),
}

#: MLA where the file has the keys of it; an older file without them holds expanded heads.
LATENT = frozenset({"deepseek2", "deepseek32", "glm-dsa", "mistral4", "hy_v4"})
#: MLA always, in the attention layers of a recurrent hybrid.
LATENT_HYBRID = frozenset({"kimi-linear", "kimi-k3", "bailingmoe3", "glm5-next"})
#: Indexers: which layers own one.
INDEXERS = {
    "deepseek32": "all", "glm-dsa": "types", "hy_v4": "types", "glm5-next": "types",
    "minimax-m3": "sparse",
}  # fmt: skip
SPECIAL = frozenset({"llama4", "deepseek4", "t5"})

#: Architectures that kvcalc knows and does not size, and why.
REFUSED = {
    **dict.fromkeys(
        ("bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "eurobert", "jina-bert-v2",
         "jina-bert-v3", "modern-bert", "gemma-embedding", "t5encoder"),
        "is an encoder and keeps no KV cache",
    ),
    **dict.fromkeys(
        ("dream", "llada", "llada-moe", "rnd1"), "is a diffusion model and keeps no KV cache"
    ),
    **dict.fromkeys(("clip", "wavtokenizer-dec", "pockettts"), "is no language model"),
    **dict.fromkeys(
        ("dflash", "eagle3", "gemma4-assistant"), "is a draft head: its cache is the target's"
    ),
}  # fmt: skip
KNOWN = (
    PLAIN
    | frozenset(WINDOWS)
    | frozenset(RECURRENT)
    | LATENT
    | LATENT_HYBRID
    | SPECIAL
)  # fmt: skip
#: Files of GLM-5.2 without `indexer.types`: layers 0 and 1 own an indexer, then every fourth.
GLM_DSA_PERIOD, GLM_DSA_FIRST = 4, 2
