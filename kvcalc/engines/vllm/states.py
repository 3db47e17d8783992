"""Shapes of recurrent states in vLLM: what one tensor-parallel rank holds of one layer.

Source: vLLM 0.33 `model_executor/layers/mamba/mamba_utils.py`; K is the conv kernel, the conv
state its last K − 1 columns (K − 1 + num_spec with speculative decoding), stored (columns,
channels). Elements only: dtypes are the caller's.
"""

from __future__ import annotations

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.units import shown

#: kind → (needed parameters, optional ones with their defaults).
PARAMETERS: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "mamba1": (("intermediate_size", "state_size", "conv_kernel"), {}),
    "mamba2": (
        ("intermediate_size", "n_groups", "num_heads", "head_dim", "state_size", "conv_kernel"),
        {"num_spec": 0},
    ),
    "gated_delta_net": (
        ("num_k_heads", "num_v_heads", "head_k_dim", "head_v_dim", "conv_kernel_size"),
        {"num_spec": 0},
    ),
    "kda": (
        ("num_heads", "head_dim"),
        {"num_k_heads": 0, "head_k_dim": 0, "conv_kernel_size": 4, "num_spec": 0},
    ),
    "short_conv": (("intermediate_size", "conv_kernel"), {"num_spec": 0}),
    "linear_attention": (("num_heads", "head_dim"), {}),
}
_ALIASES = {
    "mamba": "mamba1", "mamba_1": "mamba1", "mamba_2": "mamba2", "gdn": "gated_delta_net",
    "delta_net": "gated_delta_net", "qwen3_next": "gated_delta_net", "shortconv": "short_conv",
    "linear": "linear_attention", "lightning": "linear_attention",
    "lightning_attention": "linear_attention", "kimi_delta_attention": "kda",
}  # fmt: skip


def state_shape(kind: str, tp: int, **params: int) -> list[list[int]]:
    """Shapes of a recurrent layer's states on one of `tp` ranks, in elements.

    Args:
        kind: mamba1, mamba2, gated_delta_net, kda, short_conv or linear_attention; what follows
            the name ("mamba2 g8 (…)") is ignored.
        tp: Tensor-parallel ranks; heads and channels split, Mamba-2 groups are raised to `tp`
            where they do not divide.
        **params: The kind's numbers under the names of its config fields, see `PARAMETERS`.

    Raises:
        KvcalcError: "usage" for an unknown kind or parameter, "not_divisible".
    """
    name = kind_of(kind)
    needed, optional = PARAMETERS[name]
    if tp < 1 or set(needed) - set(params) or set(params) - set(needed) - set(optional):
        wanted = ", ".join(needed) + "".join(f", [{o}]" for o in optional)
        raise KvcalcError(
            "usage",
            f"state_shape {name}: got tp={tp} and {', '.join(params) or 'nothing'}",
            f"it takes tp ≥ 1 and {wanted}",
        )
    return _SHAPES[name](tp, {**optional, **params})


def kind_of(kind: str) -> str:
    """The canonical kind in a name: "gated delta net num_spec=3" is gated_delta_net.

    Raises:
        KvcalcError: "usage" if there is none.
    """
    word = kind.lower().replace("-", "_").replace(" ", "_")
    names = {**{k: k for k in PARAMETERS}, **_ALIASES}
    found = [alias for alias in names if word == alias or word.startswith(f"{alias}_")]
    if not found:
        close = nearest(word, list(names))
        raise KvcalcError(
            "usage",
            f'no state kind "{shown(kind)}"',
            f"nearest: {', '.join(close)}" if close else f"known: {', '.join(PARAMETERS)}",
        )
    return names[max(found, key=len)]


def _split(what: str, value: int, tp: int) -> int:
    if value % tp:
        raise KvcalcError(
            "not_divisible", f"--tp {tp} does not divide {what} = {value}", "use a tp that does"
        )
    return value // tp


def _mamba1(tp: int, p: dict[str, int]) -> list[list[int]]:
    channels = _split("intermediate_size", p["intermediate_size"], tp)
    return [[p["conv_kernel"] - 1, channels], [channels, p["state_size"]]]


def _mamba2(tp: int, p: dict[str, int]) -> list[list[int]]:
    # Every rank holds all groups that its heads read: one group becomes tp of them.
    groups = p["n_groups"] if p["n_groups"] % tp == 0 else tp
    channels = p["intermediate_size"] + 2 * groups * p["state_size"]
    return [
        [p["conv_kernel"] - 1 + p["num_spec"], _split("the conv channels", channels, tp)],
        [_split("num_heads", p["num_heads"], tp), p["head_dim"], p["state_size"]],
    ]


def _gated_delta_net(tp: int, p: dict[str, int]) -> list[list[int]]:
    channels = 2 * p["num_k_heads"] * p["head_k_dim"] + p["num_v_heads"] * p["head_v_dim"]
    return [
        [p["conv_kernel_size"] - 1 + p["num_spec"], _split("the conv channels", channels, tp)],
        [_split("num_v_heads", p["num_v_heads"], tp), p["head_v_dim"], p["head_k_dim"]],
    ]


def _kda(tp: int, p: dict[str, int]) -> list[list[int]]:
    keys = (p["num_k_heads"] or p["num_heads"]) * (p["head_k_dim"] or p["head_dim"])
    channels = p["num_heads"] * p["head_dim"] + 2 * keys
    return [
        [p["conv_kernel_size"] - 1 + p["num_spec"], _split("the conv channels", channels, tp)],
        [_split("num_heads", p["num_heads"], tp), p["head_dim"], p["head_dim"]],
    ]


def _short_conv(tp: int, p: dict[str, int]) -> list[list[int]]:
    channels = _split("intermediate_size", p["intermediate_size"], tp)
    return [[p["conv_kernel"] - 1 + p["num_spec"], channels]]


def _linear_attention(tp: int, p: dict[str, int]) -> list[list[int]]:
    return [[_split("num_heads", p["num_heads"], tp), p["head_dim"], p["head_dim"]]]


_SHAPES = {
    "mamba1": _mamba1,
    "mamba2": _mamba2,
    "gated_delta_net": _gated_delta_net,
    "kda": _kda,
    "short_conv": _short_conv,
    "linear_attention": _linear_attention,
}
