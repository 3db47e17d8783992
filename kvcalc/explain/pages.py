"""Pages on allocation: what reserving the maximum wastes, and how pages and their table work."""

from __future__ import annotations

from kvcalc.core.results.explain import Page
from kvcalc.core.size import block_bytes
from kvcalc.core.units import cdiv, fixed, percent, unit_of
from kvcalc.explain.subject import BLOCK, UNEQUAL, Subject, grid, page, part, sized

#: Two requests of the drawing, and how many of their first tokens are the same.
_TOKENS, _SHARED = (45, 38), 32


def waste(s: Subject) -> Page:
    """Three requests of unequal lengths under four policies."""
    lengths, limit = s.scaled(UNEQUAL)
    made = s.waste(lengths, limit)
    by_name = {p.policy: p for p in made.policies}
    naive, paged = by_name["naive"], by_name["paged"]
    unit_name, unit = unit_of(max(naive.allocated_bytes, 1))
    each = [
        [
            name,
            f"{n:,}",
            fixed(s.bytes_at(limit), unit),
            fixed(s.bytes_at(n), unit),
            fixed(s.bytes_at(limit) - s.bytes_at(n), unit),
        ]
        for name, n in zip("ABC", lengths, strict=True)
    ]
    rows = [
        [
            p.policy,
            _reserves(p.policy, limit),
            fixed(p.allocated_bytes, unit),
            fixed(p.wasted_bytes, unit),
            percent(p.waste_fraction),
        ]
        for p in made.policies
    ]
    sections = [
        part(
            "Reserving the maximum",
            f"A request may grow to {limit:,} tokens, so an engine without pages sets that much "
            "aside for each, whatever it turns out to use.",
            grid=grid(f"request|>tokens used|>{unit_name} reserved|>used|>wasted", each),
        ),
        part(
            "Four policies",
            "A power of two wastes less than half of what it takes; the exact length is known to "
            "nobody beforehand; pages waste at most one block a request.",
            grid=grid(f"policy|reserves|>{unit_name}|>wasted|>share", rows),
        ),
    ]
    figures: list[tuple[str, int | float, str]] = [
        ("naive_bytes", naive.allocated_bytes, "B"),
        ("used_bytes", naive.used_bytes, "B"),
        ("paged_bytes", paged.allocated_bytes, "B"),
    ]
    found = s.machine
    command = f"kvcalc waste {s.model.id} --request {','.join(map(str, lengths))} "
    command += f"--max-context {limit}"
    if found is not None and naive.allocated_bytes:
        at_limit = s.fit(found.gpu.count, limit)
        slots = at_limit.max_requests if at_limit is not None else 0
        work = fixed(slots * naive.used_bytes, naive.allocated_bytes, 1)
        many = f"{slots:,} slot{'' if slots == 1 else 's'} of {limit:,} tokens"
        sections.append(
            part(
                "What it costs a server",
                f"Beside the weights there are {many} on {found.gpu.count} × {found.gpu.id}. "
                f"Reserved in full for requests like these, they do the work of {work}.",
                commands=(command,),
            )
        )
        figures.append(("slots", slots, ""))
    return page(
        "waste",
        "What allocation wastes",
        f"Reserving {limit:,} tokens for requests of {', '.join(f'{n:,}' for n in lengths)} "
        f"takes {sized(naive.allocated_bytes)} of {s.name}'s cache and wastes "
        f"{percent(naive.waste_fraction)}; pages of {BLOCK} waste {percent(paged.waste_fraction)}.",
        figures,
        *sections,
    )


def _reserves(policy: str, limit: int) -> str:
    return {
        "naive": f"{limit:,} tokens",
        "pow2": "the next power of two",
        "exact": "what is used",
        "paged": f"whole blocks of {BLOCK}",
    }[policy]


def paged(s: Subject) -> Page:
    """A block table drawn: logical blocks of two requests, the physical ones, one shared prefix."""
    one = block_bytes(s.model, s.storage, BLOCK, BLOCK) - s.size.state_bytes_per_request
    first, second = _TOKENS
    shared = _SHARED // BLOCK
    drawing = _table(first, second, shared)
    held = cdiv(first, BLOCK) + cdiv(second, BLOCK) - shared
    alone = cdiv(first, BLOCK) + cdiv(second, BLOCK)
    context = s.context
    odd = max(context * 7 // 8 + 1, 1)
    rows = []
    for size in (16, 64, 256):
        taken = block_bytes(s.model, s.storage, odd, size)
        rows.append(
            [f"{size}", f"{cdiv(odd, size):,}", sized(taken), sized(taken - s.bytes_at(odd))]
        )
    sentence = (
        f"A block of {BLOCK} tokens of {s.name} takes {sized(one)} in all layers; a request of "
        f"{context:,} tokens needs {cdiv(context, BLOCK):,} of them, wherever they lie."
    )
    if not one:
        sentence = f"{s.name} keeps a state of fixed size: there are no tokens to put into pages."
    return page(
        "paged",
        "Pages instead of one long tensor",
        sentence,
        [
            ("block_bytes", one, "B"),
            ("paged_bytes", block_bytes(s.model, s.storage, context, BLOCK), "B"),
        ],
        part(
            "A block table",
            "The cache is cut into blocks of a fixed number of tokens, as an operating system cuts "
            "memory into pages. A table says for each request which block holds which tokens; "
            "attention looks them up. A request takes a block when it needs one. B begins as A "
            "does, and shares those blocks.",
            drawing=tuple(drawing),
        ),
        part(
            "What it saves",
            f"Only the last block of a request has unused room. Here {alone} would be taken; "
            f"with the first {_SHARED} tokens shared it is {held}: {sized(held * one)} instead of "
            f"{sized(alone * one)}. A shared block is copied when one of the two writes to it.",
        ),
        part(
            "The size of a block",
            f"Larger blocks mean shorter tables and more unused room at the end. {odd:,} tokens:",
            grid=grid(">block size|>blocks|>taken|>unused", rows),
            commands=(
                f"kvcalc waste {s.model.id} --request {odd} --policy paged --block-size 16,64,256",
            ),
        ),
    )


def _table(first: int, second: int, shared: int) -> list[str]:
    """The drawing: each request's logical blocks, the physical block of each, how full it is."""
    free = iter((7, 1, 3, 4, 6, 0, 2, 5))
    lines = ["request  tokens  physical   filled"]
    both: list[int] = []
    for name, tokens in (("A", first), ("B", second)):
        for i in range(cdiv(tokens, BLOCK)):
            reused = name == "B" and i < shared
            block = both[i] if reused else next(free)
            if name == "A":
                both.append(block)
            filled = min(tokens - i * BLOCK, BLOCK)
            span = f"{i * BLOCK}–{i * BLOCK + filled - 1}"
            half = "▌" if filled % 2 else ""
            bar = "█" * (filled // 2) + half + "·" * ((BLOCK - filled) // 2)
            where = f"→ {block}{', as A' if reused else ''}"
            lines.append(f"{f'{name} {i}':<9}{span:<8}{where:<11}{bar}")
    return lines
