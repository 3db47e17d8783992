"""Tensor, pipeline and context parallelism: what one rank of each holds."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kvcalc.core.cache import Cache, Compressed, Cross, Full, Latent, State
from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.units import cdiv


class Parallel(NamedTuple):
    """Ranks by kind; dcp ranks are taken out of tp, ep shards only expert weights.

    `pp_layers` are the layers of each pipeline stage where they are not dealt out evenly.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    dcp: int = 1
    ep: int = 1
    pp_layers: tuple[int, ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs of the whole deployment."""
        return self.tp * self.pp * self.dp


def pp_split(layers: int, pp: int) -> list[int]:
    """Layers per pipeline stage as vLLM's get_pp_indices gives them.

    L // pp each; the remainder goes one each to the stages counted back from the second to last:
    61 over 4 is 15, 15, 16, 15.

    Raises:
        KvcalcError: "not_divisible" if there are more stages than layers.
    """
    if not 1 <= pp <= layers:
        raise KvcalcError(
            "not_divisible",
            f"--pp {pp} needs at least {pp} layers; the model has {layers}",
            f"use --pp 1 to {layers}",
        )
    counts = [layers // pp] * pp
    for back in range(2, layers % pp + 2):
        counts[pp - back] += 1
    return counts


def stage_layers(layers: int, parallel: Parallel) -> list[int]:
    """Layers of each pipeline stage: as given (VLLM_PP_LAYER_PARTITION), else dealt evenly.

    Raises:
        KvcalcError: "usage" if those given are not pp counts that add up to the model's layers;
            "not_divisible" if there are more stages than layers.
    """
    given = parallel.pp_layers
    if not given:
        return pp_split(layers, parallel.pp)
    text = ",".join(map(str, given))
    if len(given) != parallel.pp:
        stages = f"{len(given)} stage" if len(given) == 1 else f"{len(given)} stages"
        raise KvcalcError(
            "usage", f"--pp-layers {text} is for {stages}, not --pp {parallel.pp}",
            f"one count a stage, like --pp {len(given)}",
        )  # fmt: skip
    if sum(given) != layers:
        even = ",".join(map(str, pp_split(layers, parallel.pp)))
        raise KvcalcError(
            "usage", f"--pp-layers {text} are {sum(given)} layers; the model has {layers}",
            f"evenly they are {even}",
        )  # fmt: skip
    return list(given)


def rank_heads(kv_heads: int, tp: int) -> int:
    """KV heads of one tensor-parallel rank: max(1, H_kv // tp); beyond H_kv they are copied.

    Raises:
        KvcalcError: "not_divisible" if neither divides the other.
    """
    if kv_heads % tp and tp % kv_heads:
        splits = [n for n in range(1, kv_heads + 1) if kv_heads % n == 0]
        copies = [kv_heads * 2**k for k in range(1, 4)]
        raise KvcalcError(
            "not_divisible",
            f"--tp {tp} neither divides the {kv_heads} KV heads nor is a multiple of them",
            f"{', '.join(map(str, splits))} split the heads; "
            f"{', '.join(map(str, copies))} copy them; --pp {tp} splits the layers",
        )
    return max(1, kv_heads // tp)


def rank_cache(cache: Cache, tp: int, dcp: int = 1) -> Cache:
    """What one of tp ranks holds of a layer's cache.

    Heads split or are copied, MLA's latent and an indexer's key stay whole on every rank (vLLM
    0.33, SGLang 0.5.23). dcp ranks share a head between them, so heads split over tp / dcp.
    """
    if isinstance(cache, (Full, Cross)):
        return replace(cache, kv_heads=rank_heads(cache.kv_heads, tp // dcp))
    return rank_state(cache, tp) if isinstance(cache, State) else cache


def rank_state(state: State, tp: int) -> State:
    """A recurrent state's share: heads and conv channels / tp.

    Mamba-2 has tp groups where tp does not divide its own.

    Raises:
        KvcalcError: "not_divisible" if the channels or heads do not divide.
    """
    # vLLM's extra groups are tp − G whenever tp does not divide G: the sum is always tp groups.
    extra = tp - state.groups if state.groups and state.groups % tp else 0
    channels = state.conv_channels + extra * state.group_channels
    if channels % tp or state.recurrent_elements % tp or (state.heads or tp) % tp:
        raise KvcalcError(
            "not_divisible",
            f"--tp {tp} does not divide the {state.variant} state of "
            f"{state.heads or channels} {'heads' if state.heads else 'channels'}",
            "use a tp that divides it",
        )
    return replace(
        state,
        conv_channels=channels // tp,
        recurrent_elements=state.recurrent_elements // tp,
        heads=state.heads // tp if state.heads else None,
        groups=(state.groups + extra) // tp,
    )


def rank_tokens(cache: Cache, tokens: int, dcp: int) -> int:
    """Tokens of one decode-context rank: ceil(n / dcp) for caches that grow with every token."""
    splits = type(cache) is Full or (isinstance(cache, Latent) and cache.window is None)
    return cdiv(tokens, dcp) if splits or isinstance(cache, Compressed) else tokens


def stages(model: Model, parallel: Parallel) -> list[Model]:
    """The model cut into pipeline stages, in order."""
    if parallel.pp == 1 and not parallel.pp_layers:
        return [model]
    cut, start = [], 0
    for count in stage_layers(len(model.layers), parallel):
        cut.append(replace(model, layers=model.layers[start : start + count]))
        start += count
    return cut


def stage_ranks(model: Model, parallel: Parallel) -> list[Model]:
    """What one rank of each pipeline stage holds: layers cut by pp, heads by tp.

    Raises:
        KvcalcError: "not_divisible"; "usage" if dcp does not divide tp, or for --pp-layers that
            are not the model's.
    """
    if parallel.tp % parallel.dcp:
        raise KvcalcError(
            "usage",
            f"--dcp {parallel.dcp} does not divide --tp {parallel.tp}",
            "decode-context ranks are taken out of the tensor-parallel ones",
        )
    ranks = [
        replace(stage, layers=tuple(
            tuple(rank_cache(c, parallel.tp, parallel.dcp) for c in layer)
            for layer in stage.layers
        ))
        for stage in stages(model, parallel)
    ]  # fmt: skip
    heads = model.query_heads
    if heads is not None and heads % parallel.tp and any(model.attention):
        splits = [n for n in range(1, heads + 1) if heads % n == 0][:10]
        raise KvcalcError(
            "not_divisible",
            f"--tp {parallel.tp} does not divide the {heads} query heads",
            f"{', '.join(map(str, splits))} do",
        )
    return ranks


def rank_bytes(rank: Model, tokens: int, s: Storage, dcp: int = 1) -> int:
    """Bytes of one request of `tokens` on one rank (as `stage_ranks` gives them)."""
    if dcp == 1:
        return rank.bytes_at(tokens, s)
    return sum(
        len(g.layers) * g.cache.bytes_at(rank_tokens(g.cache, tokens, dcp), s) for g in rank.groups
    )
