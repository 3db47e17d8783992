"""The tensors of a model, as families list them, and the counts that follow from them."""

from __future__ import annotations

from typing import NamedTuple

EMBEDDING, HEAD, ATTENTION, MLP, EXPERTS, SHARED, ROUTER, NORMS, RECURRENT, OTHER = (
    "embedding", "output_head", "attention", "mlp", "experts", "shared_experts", "router", "norms",
    "recurrent", "other",
)  # fmt: skip


class Tensor(NamedTuple):
    """`copies` equal tensors of `rows` × `cols` elements (a vector has one column)."""

    part: str
    name: str
    rows: int
    cols: int
    copies: int
    #: A matrix that quantised formats store in their own type; all else stays at 16 bits.
    linear: bool

    @property
    def elements(self) -> int:
        """Elements of all copies."""
        return self.rows * self.cols * self.copies


class ParameterCount(NamedTuple):
    """Parameters of a text model by part, tied weights counted once; `total` is their sum.

    `active` are those that one token passes through: all but the routed experts it is not sent to
    (the embedding counted whole, as published figures do); None where the config does not say how
    many experts that is. `linear` are the elements of matrices that quantised formats store in
    their own type, `expert_matrices` those of routed experts among them, biases left out. Beside
    the total stand `buffers`, stored without being parameters (routers' correction biases), and
    `vision`, a vision tower with its projector: 0 without one, None where it is not known.
    """

    total: int
    embedding: int
    output_head: int
    attention: int
    mlp: int
    experts: int
    shared_experts: int
    router: int
    norms: int
    recurrent: int
    other: int
    active: int | None
    linear: int
    expert_matrices: int
    buffers: int = 0
    vision: int | None = None

    @property
    def embedding_elements(self) -> int:
        """The embeddings and an output head of its own: what no common format quantises."""
        return self.embedding + self.output_head

    @property
    def unquantised(self) -> int:
        """Elements that stay at 16 bits: embeddings, norms, biases, routers, convolutions."""
        return self.total - self.linear


class Tally:
    """Collects a model's tensors; a family calls it once for each kind of tensor."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.buffers = 0
        self._idle = 0
        self._known = True

    def linear(
        self, part: str, name: str, rows: int, cols: int, n: int = 1, *, bias: bool = False
    ) -> None:
        """n matrices [rows, cols] that formats quantise, and their biases."""
        self._add(part, name, rows, cols, n, linear=True)
        if bias:
            self.plain(part, name + ".bias", rows, n)

    def plain(self, part: str, name: str, elements: int, n: int = 1) -> None:
        """n tensors of `elements` that stay at 16 bits."""
        self._add(part, name, elements, 1, n, linear=False)

    def matrix(self, part: str, name: str, rows: int, cols: int, n: int = 1) -> None:
        """n matrices that stay at 16 bits: embeddings, heads, routers."""
        self._add(part, name, rows, cols, n, linear=False)

    def norm(self, size: int, n: int = 1, *, bias: bool = False, name: str = "norm") -> None:
        """n normalisations: a weight each, and a bias where the family's is a LayerNorm."""
        self.plain(NORMS, name, size, n)
        if bias:
            self.plain(NORMS, name + ".bias", size, n)

    def idle(self, elements: int, *, known: bool = True) -> None:
        """Elements of experts that a token is not sent to, if the config says how many it is."""
        self._idle += elements
        self._known = self._known and known

    def count(self, vision: int | None = None) -> ParameterCount:
        """The sums by part, and what was counted of a vision tower."""
        sums = dict.fromkeys(
            (EMBEDDING, HEAD, ATTENTION, MLP, EXPERTS, SHARED, ROUTER, NORMS, RECURRENT, OTHER), 0
        )
        for t in self.tensors:
            sums[t.part] += t.elements
        linear = [t for t in self.tensors if t.linear]
        total = sum(sums.values())
        return ParameterCount(
            **sums,
            total=total,
            active=total - self._idle if self._known else None,
            linear=sum(t.elements for t in linear),
            expert_matrices=sum(t.elements for t in linear if t.part == EXPERTS),
            buffers=self.buffers,
            vision=vision,
        )

    def _add(self, part: str, name: str, rows: int, cols: int, n: int, *, linear: bool) -> None:
        if n > 0 and rows > 0 and cols > 0:
            self.tensors.append(Tensor(part, name, rows, cols, n, linear))
