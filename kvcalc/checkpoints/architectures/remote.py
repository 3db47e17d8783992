"""Families whose code lives beside their checkpoints: no class of transformers gives defaults.

What such a file leaves out is refused, but for KV heads (none: as many as query heads) and the
head dim (none: hidden / heads), as serving engines read them.
"""

from __future__ import annotations

from kvcalc.checkpoints.architectures.dense import dense
from kvcalc.checkpoints.architectures.layers import build, full
from kvcalc.checkpoints.architectures.linear import lightning
from kvcalc.checkpoints.architectures.shape import Built, Family, Shape
from kvcalc.core.cache import Shared


def chatglm(s: Shape) -> Built:
    """ChatGLM 2 and 3, GLM-4-9B-Chat: multi_query_group_num KV heads of kv_channels."""
    if s.f.get("multi_query_group_num") is not None and not s.f.flag(
        "multi_query_attention", default=True
    ):
        s = s.changed(multi_query_group_num=None)
    return dense(s)


def qwen_v1(s: Shape) -> Built:
    """Qwen 1: as many KV heads as query heads, of kv_channels."""
    return dense(s.changed(num_key_value_heads=s.heads))


def hunyuan(s: Shape) -> Built:
    """Hunyuan-Large: with use_cla, only one layer of cla_share_factor keeps a cache."""
    built = dense(s)
    factor = s.f.optional("cla_share_factor") if s.f.flag("use_cla", default=False) else None
    layers = tuple(
        layer if factor is None or i % factor == 0 else (Shared(),)
        for i, layer in enumerate(built.layers)
    )
    return built._replace(layers=layers)


def bailing_linear(s: Shape) -> Built:
    """Ling 2 linear: one full layer a group, lightning elsewhere and no rest without one."""
    group, n = s.f.count("layer_group_size"), s.layer_count
    kinds = s.kinds() or [
        "full_attention" if (i + 1) % group == 0 or i >= n // group * group else "linear_attention"
        for i in range(n)
    ]
    makers = {"full_attention": full, "linear_attention": lightning}
    return Built(build(s, kinds, makers), s, full)


_GLM = "L:num_layers= D:kv_channels= V:padded_vocab_size="
_GPT = "L:n_layer= H:n_head= E:n_embd="
#: Llama-like shapes under names of their own.
_LIKE_LLAMA = """
    PanguEmbedded Yi aquila arctic baichuan bailing_moe bailing_moe_v2 deepseek dots_ocr grok-1
    internlm internlm2 mimo minicpm minicpmo minicpmv nanbeige orion phi3_v phi3small phi4mm skywork
    step3_text xverse
"""
FAMILIES: dict[str, tuple[Family, str]] = {
    **dict.fromkeys(_LIKE_LLAMA.split(), (dense, "U=1")),
    "hunyuan": (hunyuan, ""),
    "chatglm": (chatglm, _GLM),
    "qwen": (qwen_v1, "D:kv_channels="),
    "phi-msft": (dense, _GPT),
    "telechat": (dense, _GPT),
    "gpt3": (dense, _GPT),
    "jais": (dense, _GPT),
    "bailing_moe_linear": (bailing_linear, ""),
}
