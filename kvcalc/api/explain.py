"""kvcalc.explain: a page on one topic, with one model's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvcalc import resolve
from kvcalc.api.auto import takes_auto
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.model import Model
from kvcalc.core.results.base import KvDtype
from kvcalc.core.results.explain import ExplainResult
from kvcalc.core.size import model_info
from kvcalc.core.units import shown
from kvcalc.explain.subject import Subject
from kvcalc.explain.topics import ALL, TOPICS, listed, page_of
from kvcalc.shape import Count, Shape

#: The article's own example, and the GPU most plans are made for.
DEFAULT_MODEL, DEFAULT_GPU = "llama-3.1-70b", "h100-sxm"


@takes_auto
def explain(
    topic: str | None = None,
    model: str | Model | None = None,
    *,
    context: Count | None = None,
    gpu: str = DEFAULT_GPU,
    weights: str | None = None,
    weight_bytes: Count | None = None,
    kv_dtype: str = "auto",
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    dtype: str | None = None,
    encoder_tokens: Count | None = None,
    layers: Count | None = None,
    kv_heads: Count | None = None,
    head_dim: Count | None = None,
    query_heads: Count | None = None,
    value_dim: Count | None = None,
    parameters: Count | None = None,
    max_context_length: Count | None = None,
    group: Sequence[str] = (),
) -> ExplainResult:
    """A page on the KV cache, every number computed for the model.

    Args:
        topic: One of the topics, "all" for all of them, None for the list. A word that is no topic
            is the model.
        model: As in `kvcalc.size`; llama-3.1-70b if there is none.
        context: Tokens of the example. Default: 4,096, or the model's maximum if smaller.
        gpu: What the example runs on.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    topic, model = _sorted(topic, model)
    shape = Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    if model is None and not shape.given():
        model = DEFAULT_MODEL
    found = resolve.model_of(model, shape, encoder_tokens)
    storage = resolve.storage_of(found, kv_dtype, k_dtype, v_dtype, dtype)
    resolve.weights_of(found, weights, weight_bytes)
    device, _ = resolve.gpu_of(gpu)
    given: dict[str, Any] = {
        "kv_dtype": kv_dtype, "k_dtype": k_dtype, "v_dtype": v_dtype, "dtype": dtype,
        "weights": weights, "weight_bytes": weight_bytes,
    }  # fmt: skip
    subject = Subject(
        found, storage,
        resolve.default_context(found) if context is None
        else resolve.context_of(found, context, allow_long=False),
        device.id, {k: v for k, v in given.items() if v is not None},
    )  # fmt: skip
    topics = list(TOPICS) if topic == ALL else [] if topic is None else [topic]
    return ExplainResult(
        topic=topic,
        model=model_info(found),
        kv_dtype=KvDtype(storage.k.key, storage.v.key),
        context_tokens=subject.context,
        topics=listed(subject),
        pages=tuple(page_of(name, subject) for name in topics),
    )


def _sorted(topic: str | None, model: str | Model | None) -> tuple[str | None, str | Model | None]:
    """The topic and the model; one word alone may be either.

    Raises:
        KvcalcError: "usage" for a topic that does not exist beside a model.
    """
    if topic is None:
        return None, model
    if not isinstance(topic, str):
        raise KvcalcError("usage", f"{shown(topic)} is no topic", "kvcalc explain lists them")
    word = topic.strip().lower().replace("_", "-")
    if word in TOPICS or word == ALL:
        return word, model
    if model is None:
        try:
            resolve.model_of(topic)
        except KvcalcError as error:
            close = nearest(word, list(TOPICS), 1)
            if not close or error.code != "unknown_model":
                raise
            raise KvcalcError(
                "usage", f'no topic and no model "{shown(topic)}"',
                f"nearest topic: {close[0]}; all: kvcalc explain",
            ) from None  # fmt: skip
        return None, topic
    close = nearest(word, list(TOPICS), 1)
    near = f"nearest: {close[0]}; " if close else ""
    raise KvcalcError("usage", f'no topic "{shown(topic)}"', f"{near}all: kvcalc explain")
