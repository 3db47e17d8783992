"""What llama.cpp does with an architecture, where that differs from the model itself.

Source: llama.cpp 0c1e57098, `src/models/*.cpp` and its converter. A Hugging Face model_type and a
GGUF architecture name the same row.
"""

from __future__ import annotations

from typing import NamedTuple

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.units import shown

#: GGUF architecture: Hugging Face model types that its converter reads.
_FROM_HF = {
    "afmoe": "", "apertus": "", "arcee": "", "arctic": "", "baichuan": "baichuan_m1",
    "bailingmoe": "bailing_moe", "bailingmoe2": "bailing_moe_v2 bailing_moe_v2_5",
    "bailingmoe3": "bailing_hybrid", "bitnet": "", "bloom": "", "chameleon": "",
    "chatglm": "glm", "codeshell": "", "cogvlm": "cogvlm2", "cohere2": "",
    "cohere2moe": "cohere2_moe",
    "command-r": "cohere", "dbrx": "", "deci": "nemotron-nas deci_lm", "deepseek": "",
    "deepseek2": "deepseek_v2 deepseek_v3 kimi_k2 kimi_k25 kimi_vl glm4_moe_lite mistral_large_3 "
                 "youtu",
    "deepseek2-ocr": "", "deepseek32": "deepseek_v32", "deepseek4": "deepseek_v4", "dots1": "",
    "ernie4_5": "", "ernie4_5-moe": "ernie4_5_moe", "exaone": "", "exaone4": "exaone4_5",
    "exaone-moe": "exaone_moe", "falcon": "refinedwebmodel refinedweb", "falcon-h1": "falcon_h1",
    "gemma": "", "gemma2": "", "gemma3": "gemma3_text", "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text gemma4_unified gemma4_unified_text", "glm-dsa": "glm_moe_dsa",
    "glm4": "glm4v glm4v_text glm_ocr", "glm4moe": "glm4_moe glm4v_moe glm4v_moe_text solar_open",
    "glm5-next": "glm5_next", "gpt-oss": "gpt_oss", "gpt2": "", "gptj": "", "gptneox": "gpt_neox",
    "granite": "", "granite_swa": "granite_moe_swa", "granitehybrid": "granitemoehybrid bamba",
    "granitemoe": "granitemoeshared", "grok": "grok-1", "grovemoe": "grove_moe", "hrm_text": "",
    "hunyuan-dense": "hunyuan_v1_dense", "hunyuan-moe": "hunyuan_v1_moe", "hunyuan_vl": "",
    "hy_v3": "", "hy_v4": "", "internlm2": "", "jais": "", "jais2": "", "jamba": "",
    "kimi-k3": "kimi_k3", "kimi-linear": "kimi_linear", "laguna": "", "lfm2": "lfm2_vl",
    "lfm2moe": "lfm2_moe",
    "llama": "mistral mixtral llava internlm3 aquila yi smollm2 helium_llama ministral",
    "llama-embed": "llama_bidirec", "llama4": "llama4_text", "maincoder": "",
    "mamba": "falcon_mamba", "mamba2": "", "maple": "", "mellum": "",
    "mimo2": "mimo_v2_flash mimo_v2",
    "minicpm": "", "minicpm3": "", "minimax-01": "minimax_text_01 minimax_m1 minimax",
    "minimax-m2": "minimax_m2", "minimax-m3": "minimax_m3 minimax_m3_sparse",
    "mistral3": "ministral3", "mistral4": "", "mpt": "", "muse-glimmer": "muse_glimmer",
    "nanbeige": "", "nemotron": "", "nemotron_h": "", "nemotron_h_moe": "nemotron_h_puzzle",
    "olmo": "", "olmo2": "olmo3", "olmoe": "", "openelm": "", "orion": "",
    "paddleocr": "paddleocr_vl", "pangu-embedded": "", "phi2": "phi phi-msft", "phi3": "phi4",
    "phimoe": "", "plamo": "", "plamo2": "", "plamo3": "", "plm": "", "qwen": "",
    "qwen2": "qwen2_audio kormo", "qwen2moe": "qwen2_moe",
    "qwen2vl": "qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text qwen2_5_omni",
    "qwen3": "", "qwen35": "qwen3_5 qwen3_5_text", "qwen35moe": "qwen3_5_moe qwen3_5_moe_text",
    "qwen3moe": "qwen3_moe", "qwen3next": "qwen3_next", "qwen3vl": "qwen3_vl qwen3_vl_text",
    "qwen3vlmoe": "qwen3_vl_moe qwen3_vl_moe_text qwen3_omni_moe", "refact": "gpt_refact",
    "rwkv6": "", "rwkv6qwen2": "", "rwkv7": "", "arwkv7": "rwkv_hybrid", "seed_oss": "",
    "smallthinker": "", "smollm3": "", "spark2_5": "", "stablelm": "stablelm_epoch",
    "starcoder": "gpt_bigcode", "starcoder2": "", "step35": "step3p5 step3p7", "t5": "mt5",
    "xverse": "",
}  # fmt: skip
_BY_NAME = {name: gguf for gguf, names in _FROM_HF.items() for name in (gguf, *names.split())}


class Rules(NamedTuple):
    """What llama.cpp does of its own."""

    gguf: str
    #: Sliding-window layers have a smaller cache; without it the window is ignored.
    windows: bool = False
    #: Sliding layers stand in this pattern whatever the config says: (period, first is full).
    pattern: tuple[int, bool] | None = None
    #: This window whatever the config says.
    window: int | None = None
    #: Latent attention is stored expanded: heads · (nope + rope) and heads · hidden / heads.
    expands_latent: bool = False
    #: Layers from the first that own a cache, whatever the config says.
    owners: int | None = None
    #: Keys of an indexer are kept with values beside them.
    indexer_values: bool = False
    #: Indexer rows hold key, gate and pooled key.
    indexer_rows: int = 1
    #: The compressed caches of DeepSeek-V4.
    compressed: bool = False
    #: Flash attention is refused and forced off.
    no_flash: bool = False
    #: Recurrent states are copied for speculative decoding.
    rollback: bool = False


_WINDOWED = frozenset(
    {
        "afmoe", "cohere2", "cohere2moe", "exaone-moe", "exaone4", "gemma2", "gemma3", "gemma3n",
        "gemma4", "gpt-oss", "granite_swa", "laguna", "lfm2", "llama4", "maple", "mellum", "mimo2",
        "muse-glimmer", "olmo2", "plamo3", "smallthinker", "spark2_5", "step35",
    }
)  # fmt: skip
#: The converter does not write these patterns, so the loader's own holds.
_PATTERNS = {
    "afmoe": (4, False), "cohere2": (4, False), "gemma2": (2, False), "gemma3": (6, False),
    "gpt-oss": (2, False), "laguna": (4, True), "llama4": (4, False), "smallthinker": (4, True),
}  # fmt: skip
_RULES = {
    **{name: Rules(name, windows=True, pattern=_PATTERNS.get(name)) for name in _WINDOWED},
    "llama4": Rules("llama4", windows=True, pattern=(4, False), window=8192),
    "smallthinker": Rules("smallthinker", windows=True, pattern=(4, True), window=4096),
    "gemma3n": Rules("gemma3n", windows=True, owners=20),
    "minicpm3": Rules("minicpm3", expands_latent=True),
    "minimax-m3": Rules("minimax-m3", indexer_values=True),
    "glm5-next": Rules("glm5-next", indexer_rows=3, rollback=True),
    "deepseek4": Rules("deepseek4", windows=True, compressed=True, rollback=True),
    "lfm2": Rules("lfm2", windows=True, rollback=True),
    "grok": Rules("grok", no_flash=True),
    **{name: Rules(name, rollback=True) for name in (
        "bailingmoe3", "kimi-k3", "lfm2moe", "nemotron_h", "nemotron_h_moe", "qwen35", "qwen35moe",
    )},
}  # fmt: skip
#: Exaone-4's loader looks at the window of the 32B alone, which it knows by its depth.
EXAONE4_LAYERS, EXAONE4_WINDOW, EXAONE4_PATTERN = 64, 4096, (4, False)


def rules_of(architecture: str | None, layers: int) -> Rules:
    """The rules for a Hugging Face model type, a GGUF architecture or a class name.

    A model given by its numbers has no architecture: its windows are honoured.

    Raises:
        KvcalcError: "unsupported_architecture" if llama.cpp has no such model.
    """
    if architecture is None:
        return Rules("", windows=True)
    gguf = gguf_name(architecture)
    if gguf == "exaone4" and layers != EXAONE4_LAYERS:
        return Rules(gguf)
    return _RULES.get(gguf, Rules(gguf))


def gguf_name(architecture: str) -> str:
    """The GGUF architecture of a model type ("gemma3_text") or class ("Gemma3ForCausalLM").

    Raises:
        KvcalcError: "unsupported_architecture" with the nearest names.
    """
    for name in (architecture, architecture.lower(), architecture.lower().replace("-", "_")):
        if name in _BY_NAME:
            return _BY_NAME[name]
    word = _bare(architecture.partition("For")[0])
    found = next((gguf for name, gguf in _BY_NAME.items() if _bare(name) == word), None)
    if found is None:
        close = nearest(architecture, sorted(_BY_NAME))
        raise KvcalcError(
            "unsupported_architecture",
            f'llama.cpp: no architecture for "{shown(architecture)}"',
            f"nearest: {', '.join(close)}" if close else "use --engine none",
        )
    return found


def _bare(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
