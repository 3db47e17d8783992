"""FLOPs of a pass: 2 · P for the weights, and 2 · H · (d_k + d_v) for each token attended to.

H query heads score d_k elements of a key and add d_v of a value, a multiplication and an addition
each. What a token at position n sees follows from the cache: all n tokens, the last W of a window,
its place in a chunk of C, all tokens of an encoder. Exact sums of these are in closed form, so a
million tokens cost no more than one. Source: the transformer FLOP count of Kaplan et al. (2020),
with causal attention; softmax, norms and the recurrence of state layers are left out, so a time
from these FLOPs is a lower bound.
"""

from __future__ import annotations

from typing import NamedTuple

from kvcalc.core.cache import Cache, Chunked, Compressed, Cross, Full, Latent, SlidingWindow
from kvcalc.core.model import Model


class Attention(NamedTuple):
    """Layers of one kind: FLOPs per token attended to, and how far they see.

    `prefill` and `decode` are 2 · H · (d_k + d_v) of all its layers; they differ for MLA, which
    expands keys and values of a prompt but decodes on the latent itself.
    """

    prefill: int
    decode: int
    window: int | None = None
    chunk: int | None = None
    #: Tokens of an encoder that every position sees.
    encoder: int | None = None

    def seen(self, n: int) -> int:
        """Tokens that the n-th token attends to, itself included."""
        if self.encoder is not None:
            return self.encoder
        if self.chunk is not None:
            return (n - 1) % self.chunk + 1 if n else 0
        return n if self.window is None else min(n, self.window)

    def seen_in_pass(self, n: int) -> int:
        """Σ seen(i) for i = 1 … n: one pass over n tokens. n(n + 1)/2 where nothing is cut."""
        if self.encoder is not None:
            return n * self.encoder
        if self.chunk is not None:
            whole, rest = divmod(n, self.chunk)
            return whole * _triangle(self.chunk) + _triangle(rest)
        w = n if self.window is None else min(n, self.window)
        return _triangle(w) + (n - w) * w

    def seen_in_passes(self, n: int) -> int:
        """Σ seen_in_pass(t) for t = 1 … n: every step recomputes all tokens so far.

        n(n + 1)(n + 2)/6 where nothing is cut.
        """
        if self.encoder is not None:
            return _triangle(n) * self.encoder
        if self.chunk is not None:
            c = self.chunk
            whole, rest = divmod(n, c)
            # The q-th chunk's c passes (from 0) each repeat q whole chunks, then climb one more.
            repeated = c * _triangle(whole - 1) + rest * whole
            return repeated * _triangle(c) + whole * _pyramid(c) + _pyramid(rest)
        w = n if self.window is None else min(n, self.window)
        return _pyramid(w) + (n - w) * _triangle(w) + w * _triangle(n - w)


def _triangle(n: int) -> int:
    """1 + 2 + … + n."""
    return n * (n + 1) // 2


def _pyramid(n: int) -> int:
    """Sum of the first n triangles."""
    return n * (n + 1) * (n + 2) // 6


def attention_of(model: Model) -> tuple[Attention, ...] | None:
    """The model's attention by kind of layer; None where query heads or a kind are not known."""
    found = []
    for group in model.groups:
        if isinstance(group.cache, Compressed):
            return None
        made = _attention(group.cache, model.query_heads)
        if made is None:
            return None
        n = len(group.layers)
        if made.prefill:
            found.append(made._replace(prefill=n * made.prefill, decode=n * made.decode))
    return tuple(found)


def _attention(cache: Cache, query_heads: int | None) -> Attention | None:
    """One layer's; no FLOPs for states and layers that read another's cache."""
    if isinstance(cache, Latent):
        heads = cache.heads or query_heads
        if heads is None:
            return None
        latent = 2 * heads * (cache.rank + cache.rope_dim + cache.rank)
        expanded = latent
        if cache.nope_dim is not None and cache.value_dim is not None:
            expanded = 2 * heads * (cache.nope_dim + cache.rope_dim + cache.value_dim)
        return Attention(expanded, latent, window=cache.window)
    if not isinstance(cache, (Full, Cross)):
        return Attention(0, 0)
    if query_heads is None:
        return None
    each = 2 * query_heads * (cache.key_dim + cache.value_dim)
    return Attention(
        each,
        each,
        window=cache.window if isinstance(cache, SlidingWindow) else None,
        chunk=cache.chunk if isinstance(cache, Chunked) else None,
        encoder=cache.encoder_tokens if isinstance(cache, Cross) else None,
    )


def pass_parameters(model: Model) -> int | None:
    """Parameters that one token passes through: the active ones of a mixture of experts."""
    if model.active_parameters is not None:
        return model.active_parameters
    return None if model.experts else model.parameters or model.stored_parameters
