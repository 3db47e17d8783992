"""The frame of a page: one file that asks nothing of any network.

Its styles and scripts are named by their hashes in its content security policy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from kvcalc.report.svg_draw import escape
from kvcalc.report.svg_style import page_colours

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "assets")


@lru_cache(maxsize=8)
def asset(name: str) -> str:
    """The text of a style sheet or script of the package."""
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()


def _hash(text: str) -> str:
    import base64  # noqa: PLC0415 - only pages need hashes
    import hashlib  # noqa: PLC0415

    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def page(
    title: str,
    body: str,
    *,
    data: dict[str, Any],
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    foot: str = "",
) -> str:
    """The whole file. `body` is HTML; everything else is text or JSON and is escaped here."""
    style = page_colours() + "".join(asset(name) for name in ("page.css", *styles))
    code = [asset(name) for name in ("page.js", *scripts)]
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; "
        f"script-src {' '.join(_hash(text) for text in code)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return "".join((
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n',
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="generator" content="kvcalc">',
        f"<title>{escape(title)}</title>\n<style>{style}</style></head>\n<body>",
        '<a class="skip" href="#main">to the answer</a>',
        f'<header><b>kvcalc</b><span><bdi>{escape(title)}</bdi></span><span class="sp"></span>',
        '<button id="theme" type="button">theme: auto</button></header>\n',
        f'<main id="main">\n{body}\n</main>\n<footer>{foot or _FOOT}</footer>',
        '<div id="said" role="status"></div>\n',
        f'<script type="application/json" id="data">{embedded(data)}</script>\n',
        *(f"<script>{text}</script>\n" for text in code),
        "</body></html>\n",
    ))  # fmt: skip


_FOOT = "Memory in KiB, MiB, GiB (1 GiB = 1,073,741,824 B). Made offline; this page loads nothing."


def embedded(data: dict[str, Any]) -> str:
    """JSON that no parser of HTML can mistake for markup."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
