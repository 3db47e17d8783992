"""What changed between vLLM's releases in how the KV pool is planned.

Read in the releases themselves (0.7.2, 0.7.3, 0.8.5, 0.9.2, 0.10.2, 0.12.0, 0.15.1, 0.16.0,
0.18.1, 0.20.0, 0.20.2, 0.22.1, 0.24.0, 0.25.1, 0.26.0, 0.27.1, 0.28.0, 0.29.0, 0.30.0, 0.32.0,
0.33.0); a change between two of them is dated to the later one. What lies between those before
0.10 is from memory and public logs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: The newest release that was read; the default.
NEWEST = "0.33.0"


class Rules(NamedTuple):
    """The rules of one release."""

    #: Blocks held back when it is checked whether one request fits (the null block).
    null_block: int = 1
    #: "GPU KV cache size" is num_blocks // groups · block size, not concurrency · length.
    tokens_by_blocks: bool = False
    #: Windows are charged for all concurrent batches, not for one max_num_batched_tokens.
    all_batches_in_flight: bool = True
    #: The check counts the need of: all groups, the first group alone, or each layer by itself.
    needs: str = "groups"
    #: Groups take the largest kind's size if it is below this times the smallest's.
    group_ratio: float = 1.5
    #: Pages that do not divide the largest are padded; before, such models were refused.
    pads_pages: bool = True
    #: Sliding-window and chunked layers have groups of their own.
    hybrid_groups: bool = True
    #: Prefix caching is on by default for models with recurrent states ("align").
    hybrid_prefix_caching: bool = True
    #: A request holds one more state block for a prefill checkpoint (Mamba-2).
    prefill_checkpoint: bool = True
    #: Attention blocks of hybrid MLA models are a multiple of this.
    mla_block_tokens: int = 128
    #: DeepSeek-V4's pages are packed side by side in a block; before, padded to tuples of layers.
    packs_pages: bool = True
    #: The check sets the whole model's need against the smallest pipeline stage's memory.
    whole_model_check: bool = False
    #: A token of MLA takes a multiple of so many bytes in a layer (0.7's V0 engine, on CUDA).
    mla_align_bytes: int = 1
    #: Cross-attention has groups of its own; the V0 engine gives every layer the same blocks.
    cross_groups: bool = True


#: (first release, rules), oldest first; the last one at or below a release holds.
_OLDEST = Rules(
    null_block=0, tokens_by_blocks=True, all_batches_in_flight=False, needs="layers",
    group_ratio=1.0, pads_pages=False, hybrid_groups=False, hybrid_prefix_caching=False,
    prefill_checkpoint=False, mla_block_tokens=64, packs_pages=False, cross_groups=False,
)  # fmt: skip
_V0_7_2 = _OLDEST._replace(mla_align_bytes=256)
_HYBRID = _OLDEST._replace(hybrid_groups=True)
_V0_11 = _HYBRID._replace(cross_groups=True)
_V0_12 = _V0_11._replace(group_ratio=1.25)
_V0_15 = _V0_12._replace(needs="first_group", whole_model_check=True)
_V0_18 = _V0_15._replace(group_ratio=1.5, whole_model_check=False)
_V0_20 = _V0_18._replace(needs="groups")
_V0_20_1 = _V0_20._replace(tokens_by_blocks=False)
_V0_24 = _V0_20_1._replace(pads_pages=True)
_V0_26 = _V0_24._replace(all_batches_in_flight=True, hybrid_prefix_caching=True)
_V0_28 = _V0_26._replace(mla_block_tokens=128)
_V0_29 = _V0_28._replace(null_block=1, prefill_checkpoint=True, packs_pages=True)
TABLE: tuple[tuple[tuple[int, int, int], Rules], ...] = (
    ((0, 0, 0), _OLDEST),
    ((0, 7, 2), _V0_7_2),
    ((0, 8, 0), _OLDEST),
    ((0, 9, 1), _HYBRID),
    ((0, 11, 0), _V0_11),
    ((0, 12, 0), _V0_12),
    ((0, 15, 0), _V0_15),
    ((0, 18, 0), _V0_18),
    ((0, 20, 0), _V0_20),
    ((0, 20, 1), _V0_20_1),
    ((0, 24, 0), _V0_24),
    ((0, 26, 0), _V0_26),
    ((0, 28, 0), _V0_28),
    ((0, 29, 0), _V0_29),
)
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


def version_of(text: str) -> tuple[int, int, int]:
    """The release in "0.24.0+rhaiv.13", "v0.11.2.dev690+g67475a6e8" or "0.20".

    Raises:
        KvcalcError: "unknown_setting" if it is no version.
    """
    match = _VERSION.match(text.strip())
    if match is None:
        raise KvcalcError(
            "unknown_setting",
            f'--engine-version: "{shown(text)}" is no vLLM release',
            f"write it like {NEWEST}",
        )
    return int(match[1]), int(match[2]), int(match[3] or 0)


def rules_of(version: str | None) -> Rules:
    """The rules of a release; None is the newest known, and later ones follow it.

    Raises:
        KvcalcError: "unknown_setting" if it is no version.
    """
    wanted = version_of(NEWEST if version is None else version)
    return [rules for first, rules in TABLE if first <= wanted][-1]


def in_flight_tokens(
    max_num_batched_tokens: int, version: str | None, *, pp: int = 1, async_scheduling: bool = True
) -> int:
    """Tokens that a window keeps for batches under way.

    max_num_batched_tokens · (pp + 1) with asynchronous scheduling (the default), · pp without;
    before 0.26 one batch.
    """
    if not rules_of(version).all_batches_in_flight:
        return max_num_batched_tokens
    return max_num_batched_tokens * (pp + 1 if async_scheduling else pp)
