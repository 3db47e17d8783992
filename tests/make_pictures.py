"""The README's pictures, made by the program itself: `python tests/make_pictures.py`.

`--check` writes nothing and exits 1 where a picture is not what the program draws now.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kvcalc.cli.main import answered, parse  # noqa: E402 - the checkout's package, not another
from kvcalc.cli.spec import spec_of  # noqa: E402
from kvcalc.report import svg, svg_terminal  # noqa: E402
from kvcalc.report.views import view  # noqa: E402

FOLDER = ROOT / ".github" / "images"


class Picture(NamedTuple):
    """A command, drawn as its chart or as what a terminal of so many columns shows."""

    command: str
    columns: int | None = None


PICTURES = {
    "fit": Picture("kvcalc fit llama-3.1-70b --weights awq --gpu a100-80 --engine vllm", 84),
    "size": Picture("kvcalc size llama-3.1-70b", 84),
    "size-window": Picture("kvcalc size gemma-3-27b -c 8K,32K,128K", 84),
    "timeline": Picture("kvcalc timeline llama-3.1-8b --prompt 4096 --output 126976 --gpu 4090"),
    "budget": Picture("kvcalc fit llama-3.1-70b --gpu h100 --weights int4 -c 4096"),
    "simulate": Picture(
        "kvcalc simulate llama-3.1-8b --gpu a100-40"
        " --trace poisson:rate=6,requests=400,prompt=3200,output=300"
    ),
    "waste": Picture(
        "kvcalc waste llama-3.1-70b --request 500,3800,200 --max-context 4096 --pool 45GiB"
    ),
}


def drawn(picture: Picture) -> str:
    """The picture of one command."""
    _, command, *words = shlex.split(picture.command)
    spec = spec_of(command)
    options = parse(spec, words)
    assert options is not None, picture.command
    result = answered(spec, options)
    if picture.columns is None:
        return svg.render(result)
    return svg_terminal.picture(view(result), picture.command, picture.columns)


def main(arguments: list[str]) -> int:
    """Write the pictures, or with --check name those that are stale."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python tests/make_pictures.py [--check]\n")
        return 2
    stale = []
    for name, picture in PICTURES.items():
        path = FOLDER / f"{name}.svg"
        text = drawn(picture)
        if path.is_file() and path.read_bytes() == text.encode("utf-8"):
            continue
        stale.append(name)
        if not arguments:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8"))
    if arguments and stale:
        sys.stderr.write(f"stale in .github/images: {', '.join(stale)}\n")
    return 1 if arguments and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
