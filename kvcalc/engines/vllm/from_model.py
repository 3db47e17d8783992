"""A model as vLLM lays it out: each layer's cache specs, block sizes and page alignment.

Source: vLLM 0.33 (`model_executor/layers/attention`, `platforms/interface.py`,
`model_executor/layers/mamba`, `models/deepseek_v4`). Figures are of one tensor-parallel rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvcalc.core.cache import (
    Cache,
    Chunked,
    Compressed,
    Cross,
    Full,
    Indexer,
    Latent,
    Shared,
    SlidingWindow,
    State,
)
from kvcalc.core.dtypes import Storage, kv_bytes
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.shard import Parallel, rank_heads, stage_layers
from kvcalc.core.units import pad
from kvcalc.engines.vllm.compressed import compressed_specs
from kvcalc.engines.vllm.hybrid import (
    Setting,
    aligned,
    attention_token_bytes,
    expanded,
    expands,
    state_spec,
)
from kvcalc.engines.vllm.specs import CHUNKED, CROSS, FULL, MLA, WINDOW, Spec
from kvcalc.engines.vllm.versions import rules_of

#: Tokens of a block where nothing asks for another; what the backends of a kind prefer.
BLOCK, MLA_BLOCK, SPARSE_BLOCK, COMPRESSED_BLOCK = 16, 64, 64, 256


@dataclass(frozen=True, slots=True)
class LayerSpecs:
    """What `plan` needs of a model: its layers' specs and the settings that follow from them."""

    layers: tuple[tuple[Spec, ...], ...]
    block_size: int
    layout: str = "LBNHC"
    mamba_cache_mode: str = "none"
    disable_hybrid: bool = False
    encoder_tokens: int = 0
    #: By how much state pages grow to match attention pages, in the model's own bytes.
    state_page_bytes: int = 0
    #: The last of `layers` that are a draft's; they run on the last pipeline stage.
    draft_layers: int = 0

    @property
    def specs(self) -> list[Spec]:
        """All layers in order; a layer may hold several caches or none."""
        return [spec for layer in self.layers for spec in layer]

    def stages(self, parallel: Parallel) -> list[list[Spec]]:
        """Specs by pipeline stage, cut by layers as vLLM cuts them."""
        cut, start = [], 0
        for count in stage_layers(len(self.layers) - self.draft_layers, parallel):
            part = self.layers[start : start + count]
            cut.append([spec for layer in part for spec in layer])
            start += count
        cut[-1] += [spec for layer in self.layers[start:] for spec in layer]
        return cut


def specs_from_model(
    model: Model,
    storage: Storage,
    *,
    max_model_len: int,
    tp: int = 1,
    block_size: int | None = None,
    prefix_caching: bool | None = None,
    chunked_hybrid: bool = False,
    disable_hybrid: bool = False,
    speculative_tokens: int = 0,
    draft_layers: int = 0,
    ssm_dtype: str | None = None,
    gdn_checkpoint: bool = False,
    kernel_block: int = BLOCK,
    version: str | None = None,
) -> LayerSpecs:
    """The cache specs of a model's layers on one rank.

    Args:
        model: The model.
        storage: Formats of K and V and the model's dtype.
        max_model_len: Tokens a request may reach (the block of states without prefix caching).
        tp: Tensor-parallel ranks.
        block_size: Tokens of a block; default by kind: 16, MLA 64, DeepSeek-V4 256. Blocks of
            hybrids grow until an attention page holds a state.
        prefix_caching: None is the release's default; hybrids have it since 0.26.
        chunked_hybrid: Keep chunked layers in chunks (vLLM's environment switch).
        disable_hybrid: Allocate windows as full attention.
        speculative_tokens: Draft tokens a step; states keep one copy for each.
        draft_layers: MTP layers, each like the model's last full attention.
        ssm_dtype: `--mamba-ssm-cache-dtype`; None is automatic.
        gdn_checkpoint: The GDN backend keeps a prefill checkpoint (FlashInfer's).
        kernel_block: Smallest block of the attention kernel.
        version: vLLM's release; default the newest known.

    Raises:
        KvcalcError: "not_divisible"; "unsupported_architecture" for a cache vLLM does not have.
    """
    rules = rules_of(version)
    caches = [c for layer in model.layers for c in layer]
    states = any(isinstance(c, State) for c in caches) and not _is_compressed(caches)
    attention = any(isinstance(c, (Full, Latent)) for c in caches)
    wanted = rules.hybrid_prefix_caching if prefix_caching is None else prefix_caching
    setting = Setting(
        model=model,
        storage=storage,
        rules=rules,
        tp=tp,
        block=block_size or _default_block(caches),
        max_model_len=max_model_len,
        align=states and attention and wanted,
        speculative_tokens=speculative_tokens,
        ssm_dtype=ssm_dtype,
        checkpoint=gdn_checkpoint,
    )
    page = 0
    if states and attention:
        setting, page = aligned(setting, caches, kernel_block)
    layers = [_layer(layer, setting, page) for layer in model.layers]
    if draft_layers:
        layers += [(_last_full(layers),)] * draft_layers
    chunked = any(isinstance(c, Chunked) for c in caches) and not chunked_hybrid
    return LayerSpecs(
        layers=tuple(layers),
        block_size=setting.block,
        layout="BLHNC" if _is_compressed(caches) else "LBNHC",
        mamba_cache_mode="align" if setting.align else "none",
        disable_hybrid=disable_hybrid or chunked,
        encoder_tokens=max((c.encoder_tokens for c in caches if isinstance(c, Cross)), default=0),
        state_page_bytes=page,
        draft_layers=draft_layers,
    )


def _is_compressed(caches: list[Cache]) -> bool:
    return any(isinstance(c, Compressed) and not isinstance(c, Indexer) for c in caches)


def _default_block(caches: list[Cache]) -> int:
    if _is_compressed(caches):
        return COMPRESSED_BLOCK
    if any(isinstance(c, Indexer) for c in caches):
        return SPARSE_BLOCK
    latent = any(isinstance(c, Latent) for c in caches)
    return MLA_BLOCK if latent and not any(isinstance(c, State) for c in caches) else BLOCK


def _layer(layer: tuple[Cache, ...], setting: Setting, page: int) -> tuple[Spec, ...]:
    if any(isinstance(c, Compressed) and not isinstance(c, Indexer) for c in layer) or any(
        isinstance(c, Latent) and c.window for c in layer
    ):
        return tuple(compressed_specs(layer, setting.storage, setting.block))
    specs = (_spec(c, setting, page) for c in layer if not isinstance(c, Shared))
    return tuple(specs)


def _spec(cache: Cache, setting: Setting, page: int) -> Spec:
    if isinstance(cache, State):
        return state_spec(cache, setting, page)
    if isinstance(cache, Indexer):
        return _indexer_spec(cache, setting)
    if isinstance(cache, Latent) and not expands(setting.model):
        token, sizes = attention_token_bytes(cache, setting), (1, cache.rank + cache.rope_dim, 0)
        return _paged(MLA, setting, sizes, pad(token, setting.rules.mla_align_bytes))
    if isinstance(cache, Latent):
        heads, dim = expanded(cache, setting)
        token = kv_bytes(setting.storage, heads, dim, dim)
        return _paged(FULL, setting, (heads, dim, dim), token)
    if isinstance(cache, (Full, Cross)):
        heads = rank_heads(cache.kv_heads, setting.tp)
        token = kv_bytes(setting.storage, heads, cache.key_dim, cache.value_dim)
        sizes = (heads, cache.key_dim, cache.value_dim)
        if isinstance(cache, SlidingWindow):
            return replace(_paged(WINDOW, setting, sizes, token), window=cache.window)
        if isinstance(cache, Chunked):
            return replace(_paged(CHUNKED, setting, sizes, token), chunk=cache.chunk)
        crosses = isinstance(cache, Cross) and setting.rules.cross_groups
        return _paged(CROSS if crosses else FULL, setting, sizes, token)
    raise KvcalcError(
        "unsupported_architecture",
        f"vLLM has no {cache.kind} cache (model {setting.model.name})",
        "use --engine none",
    )


def _paged(kind: str, setting: Setting, sizes: tuple[int, int, int], token: int) -> Spec:
    heads, key, value = sizes
    return Spec(
        type=kind,
        block_size=setting.block,
        page_bytes=setting.block * token,
        kv_heads=heads,
        head_size=key,
        head_size_v=value,
        dtype=setting.storage.k.key,
    )


def _indexer_spec(cache: Indexer, setting: Setting) -> Spec:
    """Sparse MLA: fp8 keys with an fp32 scale per 128; beside plain attention: K's format."""
    beside_latent = any(isinstance(c, Latent) for ly in setting.model.layers for c in ly)
    if beside_latent:
        size = cache.dim + cache.dim // 128 * 4
        return replace(_paged(MLA, setting, (1, size, 0), size), dtype="uint8")
    return _paged(MLA, setting, (1, cache.dim, 0), cache.entry_bytes(setting.storage))


def _last_full(layers: list[tuple[Spec, ...]]) -> Spec:
    return next(s for layer in reversed(layers) for s in layer if s.is_full)
