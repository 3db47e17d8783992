"""One frozen class per cache kind. Each answers in whole bytes and asks nothing but tokens.

Symbols of the formulas: n tokens, H_kv KV heads, d_k and d_v key and value head dims, s bytes of an
element. An instance is one layer's cache of one request; `Storage` says how elements are stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kvcalc.core.dtypes import Storage, dtype, kv_bytes, row_bytes
from kvcalc.core.units import cdiv


class Cache:
    """What every kind answers; a kind overrides what differs for it."""

    __slots__ = ()
    kind: ClassVar[str]

    def entry_bytes(self, s: Storage) -> int:  # noqa: ARG002
        """Bytes of one held entry: a token's keys and values, a latent, a compressed key."""
        return 0

    def token_bytes(self, s: Storage) -> int:
        """Bytes that one more token adds while it adds anything (rounded up to a byte)."""
        return self.entry_bytes(s)

    def resident(self, tokens: int) -> int:
        """Entries held once `tokens` have been seen."""
        return tokens

    def fixed_bytes(self, s: Storage) -> int:  # noqa: ARG002
        """Bytes that a request holds whatever its length."""
        return 0

    def bytes_at(self, tokens: int, s: Storage) -> int:
        """Bytes of this layer for one request of `tokens`."""
        return self.resident(tokens) * self.entry_bytes(s) + self.fixed_bytes(s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Full(Cache):
    """Keys and values of every token (MHA, GQA, MQA): n · H_kv · (d_k + d_v) · s."""

    kind: ClassVar[str] = "full"
    kv_heads: int
    key_dim: int
    value_dim: int

    def entry_bytes(self, s: Storage) -> int:
        """H_kv · (d_k + d_v) · s."""
        return kv_bytes(s, self.kv_heads, self.key_dim, self.value_dim)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow(Full):
    """Only the last W tokens: min(n, W) · H_kv · (d_k + d_v) · s."""

    kind: ClassVar[str] = "sliding_window"
    window: int

    def resident(self, tokens: int) -> int:
        """min(n, W)."""
        return min(tokens, self.window)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunked(Full):
    """Attention within chunks of C tokens (Llama 4): at most one chunk, min(n, C)."""

    kind: ClassVar[str] = "chunked"
    chunk: int

    def resident(self, tokens: int) -> int:
        """The most held on the way to n tokens: min(n, C)."""
        return min(tokens, self.chunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent(Cache):
    """MLA: one latent and one rope key for all heads, n · (r_kv + d_rope) · s; no factor 2.

    With `window` only the last tokens stay (DeepSeek-V4's sliding layers, whose key is also the
    value). `heads`, `nope_dim` and `value_dim` are those of the expanded keys and values, for
    engines that store them expanded; they do not shape the latent.
    """

    kind: ClassVar[str] = "latent"
    rank: int
    rope_dim: int
    window: int | None = None
    heads: int | None = None
    nope_dim: int | None = None
    value_dim: int | None = None

    def entry_bytes(self, s: Storage) -> int:
        """One row in K's format; a scale per head for K and one for V, as vLLM keeps them."""
        if s.k.pair is not None:
            return kv_bytes(s, 1, self.rank + self.rope_dim, 0)
        return row_bytes(s.k, 1, self.rank + self.rope_dim) + s.v.head_bytes

    def resident(self, tokens: int) -> int:
        """All tokens, or min(n, W)."""
        return tokens if self.window is None else min(tokens, self.window)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressed(Cache):
    """DeepSeek-V4: one entry of `dim` for every `ratio` tokens, floor(n / ratio) · dim · s."""

    kind: ClassVar[str] = "compressed"
    dim: int
    ratio: int = 1

    def entry_bytes(self, s: Storage) -> int:
        """dim · s."""
        return row_bytes(s.k, 1, self.dim)

    def token_bytes(self, s: Storage) -> int:
        """An entry's bytes spread over its tokens."""
        return cdiv(self.entry_bytes(s), self.ratio)

    def resident(self, tokens: int) -> int:
        """Whole entries: floor(n / ratio)."""
        return tokens // self.ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer(Compressed):
    """The key of a sparse-attention indexer: one vector of `dim` a token (or a group), no value."""

    kind: ClassVar[str] = "indexer"


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Cache):
    """A recurrent layer's state, fixed per request: (K − 1) · channels + recurrent elements.

    `conv_kernel` is K; the textbook keeps the K − 1 columns that the next token needs. A dtype of
    None is the model's. Under tensor parallelism the heads split; Mamba-2's groups, of
    `group_channels` each, are first raised to the number of ranks.
    """

    kind: ClassVar[str] = "state"
    variant: str
    conv_kernel: int = 1
    conv_channels: int = 0
    recurrent_elements: int = 0
    conv_dtype: str | None = None
    recurrent_dtype: str | None = None
    heads: int | None = None
    groups: int = 0
    group_channels: int = 0

    def resident(self, tokens: int) -> int:  # noqa: ARG002
        """No token is held as such."""
        return 0

    def fixed_bytes(self, s: Storage) -> int:
        """Conv columns and recurrent elements, each in its own dtype."""
        conv = s.model if self.conv_dtype is None else dtype(self.conv_dtype)
        recurrent = s.model if self.recurrent_dtype is None else dtype(self.recurrent_dtype)
        columns = (self.conv_kernel - 1) * self.conv_channels
        return columns * conv.block_bytes + self.recurrent_elements * recurrent.block_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Cross(Cache):
    """Keys and values of the encoder's output: encoder tokens · H_kv · (d_k + d_v) · s."""

    kind: ClassVar[str] = "cross"
    kv_heads: int
    key_dim: int
    value_dim: int
    encoder_tokens: int

    def resident(self, tokens: int) -> int:  # noqa: ARG002
        """The encoder's tokens, however many are decoded."""
        return self.encoder_tokens

    def entry_bytes(self, s: Storage) -> int:
        """H_kv · (d_k + d_v) · s of one encoder token."""
        return kv_bytes(s, self.kv_heads, self.key_dim, self.value_dim)

    def token_bytes(self, s: Storage) -> int:  # noqa: ARG002
        """A decoded token adds nothing."""
        return 0

    def fixed_bytes(self, s: Storage) -> int:
        """Bytes of the encoder's keys and values."""
        return self.encoder_tokens * self.entry_bytes(s)

    def bytes_at(self, tokens: int, s: Storage) -> int:  # noqa: ARG002
        """The same at every length."""
        return self.fixed_bytes(s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(Cache):
    """Reads another layer's cache and holds nothing.

    `reads` is a cache of the kind it reads, for engines that give the layer its own after all; all
    shared caches are equal.
    """

    kind: ClassVar[str] = "shared"
    reads: Cache | None = field(default=None, compare=False)

    def resident(self, tokens: int) -> int:  # noqa: ARG002
        """Nothing."""
        return 0


def bend_of(cache: Cache) -> int | None:
    """The token count at which a cache stops growing, or None if it never does."""
    if isinstance(cache, (SlidingWindow, Latent)):
        return cache.window
    return cache.chunk if isinstance(cache, Chunked) else None
