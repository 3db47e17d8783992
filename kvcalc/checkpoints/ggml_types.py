"""The block layouts of ggml: how many elements a block of each type holds, in how many bytes."""

from __future__ import annotations

from typing import NamedTuple


class GgmlType(NamedTuple):
    """A tensor type of ggml: rows are stored as whole blocks, scales included."""

    name: str
    id: int
    block_elements: int
    block_bytes: int


#: By the id that GGUF files carry. Ids missing here (4, 5, 31-33, 36-38) were removed from ggml.
GGML_TYPES: dict[int, GgmlType] = {
    t.id: t
    for t in (
        GgmlType("F32", 0, 1, 4),
        GgmlType("F16", 1, 1, 2),
        GgmlType("Q4_0", 2, 32, 18),
        GgmlType("Q4_1", 3, 32, 20),
        GgmlType("Q5_0", 6, 32, 22),
        GgmlType("Q5_1", 7, 32, 24),
        GgmlType("Q8_0", 8, 32, 34),
        GgmlType("Q8_1", 9, 32, 36),
        GgmlType("Q2_K", 10, 256, 84),
        GgmlType("Q3_K", 11, 256, 110),
        GgmlType("Q4_K", 12, 256, 144),
        GgmlType("Q5_K", 13, 256, 176),
        GgmlType("Q6_K", 14, 256, 210),
        GgmlType("Q8_K", 15, 256, 292),
        GgmlType("IQ2_XXS", 16, 256, 66),
        GgmlType("IQ2_XS", 17, 256, 74),
        GgmlType("IQ3_XXS", 18, 256, 98),
        GgmlType("IQ1_S", 19, 256, 50),
        GgmlType("IQ4_NL", 20, 32, 18),
        GgmlType("IQ3_S", 21, 256, 110),
        GgmlType("IQ2_S", 22, 256, 82),
        GgmlType("IQ4_XS", 23, 256, 136),
        GgmlType("I8", 24, 1, 1),
        GgmlType("I16", 25, 1, 2),
        GgmlType("I32", 26, 1, 4),
        GgmlType("I64", 27, 1, 8),
        GgmlType("F64", 28, 1, 8),
        GgmlType("IQ1_M", 29, 256, 56),
        GgmlType("BF16", 30, 1, 2),
        GgmlType("TQ1_0", 34, 256, 54),
        GgmlType("TQ2_0", 35, 256, 66),
        GgmlType("MXFP4", 39, 32, 17),
        GgmlType("NVFP4", 40, 64, 36),
        GgmlType("Q1_0", 41, 128, 18),
        GgmlType("Q2_0", 42, 64, 18),
    )
}
