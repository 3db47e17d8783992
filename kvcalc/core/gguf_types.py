"""ggml's storage types and GGUF's file types: exact bits of each.

Source: llama.cpp 0c1e57098, `ggml.h` and `llama.h`, compared with gguf-py's table.
"""

from __future__ import annotations

from typing import NamedTuple


class GgmlType(NamedTuple):
    """A ggml storage type: `block_bytes` for every `block_elements` of a row."""

    name: str
    id: int
    block_elements: int
    block_bytes: int

    @property
    def bits_per_weight(self) -> float:
        """Bits of one element, scales included."""
        return 8 * self.block_bytes / self.block_elements


#: name → type, as ggml numbers them.
TYPES: dict[str, GgmlType] = {
    t.name: t
    for t in (
        GgmlType("F32", 0, 1, 4), GgmlType("F16", 1, 1, 2), GgmlType("Q4_0", 2, 32, 18),
        GgmlType("Q4_1", 3, 32, 20), GgmlType("Q5_0", 6, 32, 22), GgmlType("Q5_1", 7, 32, 24),
        GgmlType("Q8_0", 8, 32, 34), GgmlType("Q8_1", 9, 32, 36), GgmlType("Q2_K", 10, 256, 84),
        GgmlType("Q3_K", 11, 256, 110), GgmlType("Q4_K", 12, 256, 144),
        GgmlType("Q5_K", 13, 256, 176), GgmlType("Q6_K", 14, 256, 210),
        GgmlType("Q8_K", 15, 256, 292), GgmlType("IQ2_XXS", 16, 256, 66),
        GgmlType("IQ2_XS", 17, 256, 74), GgmlType("IQ3_XXS", 18, 256, 98),
        GgmlType("IQ1_S", 19, 256, 50), GgmlType("IQ4_NL", 20, 32, 18),
        GgmlType("IQ3_S", 21, 256, 110), GgmlType("IQ2_S", 22, 256, 82),
        GgmlType("IQ4_XS", 23, 256, 136), GgmlType("I8", 24, 1, 1), GgmlType("I16", 25, 1, 2),
        GgmlType("I32", 26, 1, 4), GgmlType("I64", 27, 1, 8), GgmlType("F64", 28, 1, 8),
        GgmlType("IQ1_M", 29, 256, 56), GgmlType("BF16", 30, 1, 2), GgmlType("TQ1_0", 34, 256, 54),
        GgmlType("TQ2_0", 35, 256, 66), GgmlType("MXFP4", 39, 32, 17),
        GgmlType("NVFP4", 40, 64, 36),
        GgmlType("Q1_0", 41, 128, 18), GgmlType("Q2_0", 42, 64, 18),
    )
}  # fmt: skip
BY_ID: dict[int, GgmlType] = {t.id: t for t in TYPES.values()}

#: File type → (its number in `general.file_type`, the type of most of its tensors).
FILE_TYPES: dict[str, tuple[int, str]] = {
    "F32": (0, "F32"), "F16": (1, "F16"), "Q4_0": (2, "Q4_0"), "Q4_1": (3, "Q4_1"),
    "Q8_0": (7, "Q8_0"), "Q5_0": (8, "Q5_0"), "Q5_1": (9, "Q5_1"), "Q2_K": (10, "Q2_K"),
    "Q3_K_S": (11, "Q3_K"), "Q3_K_M": (12, "Q3_K"), "Q3_K_L": (13, "Q3_K"),
    "Q4_K_S": (14, "Q4_K"), "Q4_K_M": (15, "Q4_K"), "Q5_K_S": (16, "Q5_K"),
    "Q5_K_M": (17, "Q5_K"), "Q6_K": (18, "Q6_K"), "IQ2_XXS": (19, "IQ2_XXS"),
    "IQ2_XS": (20, "IQ2_XS"), "Q2_K_S": (21, "Q2_K"), "IQ3_XS": (22, "IQ3_S"),
    "IQ3_XXS": (23, "IQ3_XXS"), "IQ1_S": (24, "IQ1_S"), "IQ4_NL": (25, "IQ4_NL"),
    "IQ3_S": (26, "IQ3_S"), "IQ3_M": (27, "IQ3_S"), "IQ2_S": (28, "IQ2_XS"),
    "IQ2_M": (29, "IQ2_S"), "IQ4_XS": (30, "IQ4_XS"), "IQ1_M": (31, "IQ1_M"),
    "BF16": (32, "BF16"), "TQ1_0": (36, "TQ1_0"), "TQ2_0": (37, "TQ2_0"),
    "MXFP4_MOE": (38, "MXFP4"), "Q1_0": (40, "Q1_0"), "Q2_0": (41, "Q2_0"),
}  # fmt: skip
#: `general.file_type` → file type.
FILE_TYPE_NAMES: dict[int, str] = {number: name for name, (number, _) in FILE_TYPES.items()}
