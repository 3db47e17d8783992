"""How vLLM sizes attention beside recurrent states: one page for both, states in their dtypes.

Source: vLLM 0.33 `platforms/interface.py` (block alignment of hybrids), `mamba/mamba_utils.py`
(dtypes), `mla_attention.py` (packed latents).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvcalc.core.cache import Cache, Full, Indexer, Latent, State
from kvcalc.core.dtypes import Storage, dtype, kv_bytes
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.shard import rank_heads, rank_state
from kvcalc.core.units import cdiv, pad
from kvcalc.engines.vllm.specs import MAMBA, Spec
from kvcalc.engines.vllm.versions import Rules

#: Models with a latent that vLLM expands to keys and values of every head, V as wide as K.
EXPANDED = frozenset({"minicpm3"})
#: Bytes of one latent of sparse MLA: 512 fp8 + four fp32 scales + 64 bf16; NVFP4 the like.
DS_MLA_BYTES = {"fp8": 656, "nvfp4": 352}
#: Models whose config names the dtype of recurrent states (else fp32 for Nemotron-H).
_OWN_STATE_DTYPE = ("nemotron_h", "qwen3_5", "qwen35")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A model's specs are built under these; `block` is the attention layers' block in tokens."""

    model: Model
    storage: Storage
    rules: Rules
    tp: int
    block: int
    max_model_len: int
    align: bool
    speculative_tokens: int
    ssm_dtype: str | None
    checkpoint: bool


def expands(model: Model) -> bool:
    """Whether vLLM stores the model's latents as keys and values of every head."""
    return model.architecture in EXPANDED


def expanded(cache: Latent, setting: Setting) -> tuple[int, int]:
    """Heads of one rank and their dimension, for K and V alike.

    Raises:
        KvcalcError: "unsupported_architecture" if the model does not name them.
    """
    if cache.heads is None or cache.nope_dim is None:
        raise KvcalcError(
            "unsupported_architecture",
            f"vLLM stores {setting.model.name}'s keys of every head; the model does not name them",
            "give the model by its config.json",
        )
    return rank_heads(cache.heads, setting.tp), cache.nope_dim + cache.rope_dim


def attention_token_bytes(cache: Cache, setting: Setting) -> int:
    """Bytes of one token of one attention layer on one rank."""
    storage = setting.storage
    if isinstance(cache, Latent):
        if expands(setting.model):
            heads, dim = expanded(cache, setting)
            return kv_bytes(storage, heads, dim, dim)
        sparse = any(isinstance(c, Indexer) for layer in setting.model.layers for c in layer)
        packed = DS_MLA_BYTES.get(storage.k.key) if sparse else None
        return packed or cache.token_bytes(storage)
    if isinstance(cache, Full):
        heads = rank_heads(cache.kv_heads, setting.tp)
        return kv_bytes(storage, heads, cache.key_dim, cache.value_dim)
    return 0


def aligned(setting: Setting, caches: list[Cache], kernel_block: int) -> tuple[Setting, int]:
    """Attention blocks so large that a page holds a state: k · ceil(M / (k · a)).

    a is one token's attention bytes, M the state's, k the kernel's block (the block's if larger;
    128 at least for MLA). Qwen3-Next: a 2,048, M 1,097,728, k 16 → 544 tokens.
    """
    first = next(c for c in caches if isinstance(c, (Full, Latent)))
    token = attention_token_bytes(first, setting)
    state = max(_state_bytes(c, setting) for c in caches if isinstance(c, State))
    step = max(kernel_block, setting.block)
    if isinstance(first, Latent):
        step = max(step, setting.rules.mla_block_tokens)
    tokens = pad(step * cdiv(state, step * token), kernel_block)
    block = max(setting.block, tokens)
    return replace(setting, block=block), block * token


def state_spec(cache: State, setting: Setting, page: int) -> Spec:
    """A recurrent layer's spec; its page is padded to the attention page of `page` bytes."""
    size = _state_bytes(cache, setting)
    mamba2 = cache.variant == "mamba2" and setting.rules.prefill_checkpoint
    checkpoint = mamba2 or (setting.checkpoint and cache.variant == "gated_delta_net")
    padded = page if page > size else None
    return Spec(
        type=MAMBA,
        block_size=setting.block if setting.align else setting.max_model_len,
        page_bytes=padded or size,
        padded_bytes=padded,
        speculative_blocks=setting.speculative_tokens,
        checkpoint_blocks=int(checkpoint),
        dcp_sharded=False,
        label=(("state", cache.variant),),
    )


def _state_bytes(cache: State, setting: Setting) -> int:
    """(K − 1 + speculative tokens) · channels and the recurrent elements, each in its dtype."""
    rank = rank_state(cache, setting.tp)
    conv = setting.storage.model.block_bytes
    columns = (rank.conv_kernel - 1 + setting.speculative_tokens) * rank.conv_channels
    recurrent = dtype(_state_dtype(cache, setting), "--dtype").block_bytes
    return columns * conv + rank.recurrent_elements * recurrent


def _state_dtype(cache: State, setting: Setting) -> str:
    """The recurrent state's dtype: the model's but for KDA, Nemotron-H and Qwen3.5."""
    if setting.ssm_dtype is not None:
        return setting.ssm_dtype
    if cache.variant == "kda":
        return "fp32"
    architecture = setting.model.architecture or ""
    if architecture.startswith(_OWN_STATE_DTYPE):
        default = "fp32" if architecture.startswith("nemotron_h") else setting.storage.model.key
        return cache.recurrent_dtype or default
    return setting.storage.model.key
