"""Models to preset files and back: nothing is lost, and what is written passes the strict check."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.decode import model_of
from kvcalc.catalog.models import load_all_models, load_model
from kvcalc.catalog.schema import check
from kvcalc.catalog.write import numbers, preset_text
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
from kvcalc.core.model import Model, StoredType, Weights

COUNT = st.integers(1, 10**9)
AMOUNT = st.integers(0, 10**9)
#: TOML holds every character but lone surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
DTYPE = st.sampled_from(["bf16", "fp16", "fp32"])
HEADS = {"kv_heads": COUNT, "key_dim": COUNT, "value_dim": AMOUNT}
CACHES: st.SearchStrategy[Cache] = st.one_of(
    st.builds(Full, **HEADS),
    st.builds(SlidingWindow, **HEADS, window=COUNT),
    st.builds(Chunked, **HEADS, chunk=COUNT),
    st.builds(Cross, **HEADS, encoder_tokens=COUNT),
    st.builds(Latent, rank=COUNT, rope_dim=AMOUNT, window=st.none() | COUNT,
              heads=st.none() | COUNT, nope_dim=st.none() | AMOUNT, value_dim=st.none() | COUNT),
    st.builds(Indexer, dim=COUNT, ratio=COUNT),
    st.builds(Compressed, dim=COUNT, ratio=COUNT),
    st.builds(State, variant=TEXT, conv_kernel=COUNT, conv_channels=AMOUNT,
              recurrent_elements=AMOUNT, conv_dtype=st.none() | DTYPE,
              recurrent_dtype=st.none() | DTYPE, heads=st.none() | COUNT, groups=AMOUNT,
              group_channels=AMOUNT),
    st.builds(Shared),
)  # fmt: skip


@st.composite
def models(draw: st.DrawFn) -> Model:
    """A model of a few distinct caches in any order, layers with none and several among them."""
    caches = draw(st.lists(CACHES, max_size=4))
    layer = st.lists(st.sampled_from(caches), max_size=3).map(tuple) if caches else st.just(())
    return draw(
        st.builds(
            Model,
            id=st.from_regex(r"[a-z0-9][a-z0-9.+-]{0,20}", fullmatch=True),
            name=TEXT,
            layers=st.lists(layer, min_size=1, max_size=12).map(tuple),
            query_heads=st.none() | COUNT,
            max_context_tokens=st.none() | COUNT,
            dtype=DTYPE,
            hidden_size=st.none() | COUNT,
            vocab_size=st.none() | COUNT,
            parameters=st.none() | COUNT,
            active_parameters=st.none() | COUNT,
            stored_parameters=st.none() | COUNT,
            experts=st.none() | COUNT,
            experts_per_token=st.none() | COUNT,
            weights=st.none()
            | st.builds(
                Weights,
                dtype=TEXT,
                bytes=st.none() | COUNT,
                embedding_elements=st.none() | AMOUNT,
                types=st.lists(
                    st.builds(StoredType, type=TEXT, bytes=AMOUNT),
                    max_size=3,
                    unique_by=lambda t: t.type,
                ).map(tuple),
                low_bytes=st.none() | COUNT,
                high_bytes=st.none() | COUNT,
            ),
            hub=st.lists(TEXT, max_size=3).map(tuple),
            architecture=st.none() | TEXT,
            confidence=st.none() | TEXT,
            defaulted=st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
        )
    )


def read(text: str) -> Model:
    """The model that a preset's text gives, strictly checked, as a user's file is."""
    entry = tomli.loads(text)
    check("models", entry, "x.toml")
    return model_of(entry, None, "")


@given(models())
def test_writing_and_reading_is_the_identity(model: Model) -> None:
    assert read(preset_text(model)) == model


@pytest.mark.parametrize("model", load_all_models(), ids=lambda m: m.id)
def test_every_shipped_model_survives_it(model: Model) -> None:
    assert read(preset_text(model)) == replace(model, source="", file=None)


def test_the_text_reads_like_a_preset() -> None:
    model = load_model("gemma-3-1b")
    window = model.layers[0][0]

    text = preset_text(
        model,
        aliases=["g"],
        texts=["config.json"],
        notes=['a "quoted" note'],
        checked="2026-11-29",
        fields={window: {"window_tokens": "sliding_window"}},
    )
    assert text.startswith('id = "gemma-3-1b"\nname = "Gemma-3-1B"\n')
    assert 'pattern = "4*(5*window + full) + 2*window"\n' in text
    assert '[layers.from]\nwindow_tokens = "sliding_window"\n' in text
    assert 'notes = ["a \\"quoted\\" note"]\n' in text
    assert "total = 999_885_952\n" in text


def test_a_uniform_model_needs_no_pattern() -> None:
    text = preset_text(load_model("llama-3.1-70b"))

    assert "pattern" not in text
    assert '[[layers]]\ncount = 80\nkind = "full"\n' in text


def test_an_unknown_kind_is_a_bug() -> None:
    with pytest.raises(TypeError, match="no preset form"):
        numbers(Cache())
