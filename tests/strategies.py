"""Random models, formats and lengths for the property tests."""

from __future__ import annotations

from hypothesis import strategies as st

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
from kvcalc.core.dtypes import DTYPES, Storage, storage
from kvcalc.core.model import Layer, Model

#: Multiples of 32, which the blocks of every format divide.
dims = st.sampled_from([32, 64, 96, 128, 192, 256])
heads = st.sampled_from([1, 2, 3, 4, 6, 8, 16, 40])
bends = st.integers(1, 5000)
tokens = st.integers(0, 300_000)
#: Lengths of requests: at least one token.
lengths = st.integers(1, 300_000)
block_sizes = st.sampled_from([1, 8, 16, 32, 64, 784])

full = st.builds(Full, kv_heads=heads, key_dim=dims, value_dim=dims)
windows = st.builds(SlidingWindow, kv_heads=heads, key_dim=dims, value_dim=dims, window=bends)
chunks = st.builds(Chunked, kv_heads=heads, key_dim=dims, value_dim=dims, chunk=bends)
latents = st.builds(
    Latent,
    rank=st.sampled_from([256, 448, 512]),
    rope_dim=st.just(64),
    window=st.none() | bends,
)
compressed = st.builds(Compressed, dim=dims, ratio=st.sampled_from([1, 4, 128]))
indexers = st.builds(Indexer, dim=dims)
states = st.builds(
    State,
    variant=st.just("mamba2"),
    conv_kernel=st.integers(1, 4),
    conv_channels=st.integers(0, 5000),
    recurrent_elements=st.integers(0, 100_000),
    conv_dtype=st.sampled_from([None, "fp32"]),
    recurrent_dtype=st.sampled_from([None, "fp32"]),
)
crosses = st.builds(
    Cross, kv_heads=heads, key_dim=dims, value_dim=dims, encoder_tokens=st.integers(1, 2000)
)
#: Caches that grow with tokens, for ever or up to a bend.
growing: st.SearchStrategy[Cache] = st.one_of(full, windows, chunks, latents, compressed, indexers)
caches: st.SearchStrategy[Cache] = st.one_of(growing, states, crosses, st.just(Shared()))

layers: st.SearchStrategy[Layer] = st.lists(caches, max_size=2).map(tuple)

#: Formats of K and V; those that hold both in a slot for both, the others also apart.
_PAIRS = [name for name, d in DTYPES.items() if d.pair]
_APART = [name for name, d in DTYPES.items() if not d.pair]
storages: st.SearchStrategy[Storage] = st.one_of(
    st.sampled_from(_PAIRS).map(storage),
    st.builds(storage, st.just("auto"), st.sampled_from(_APART), st.sampled_from(_APART)),
)


@st.composite
def models(
    draw: st.DrawFn,
    of: st.SearchStrategy[Layer] = layers,
    *,
    smallest: int = 1,
    largest: int = 12,
) -> Model:
    """A model of a few random layers, without a maximum."""
    drawn = draw(st.lists(of, min_size=smallest, max_size=largest))
    return Model(id="random", name="Random", layers=tuple(drawn))


#: Models of plain attention, whose heads ranks can split.
attention_models = models(of=st.one_of(full, windows).map(lambda cache: (cache,)))
