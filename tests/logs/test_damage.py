"""Damaged logs: lines dropped, cut, doubled, mixed, digits changed. An answer or one error."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from kvcalc.api.check import check
from kvcalc.core.errors import KvcalcError
from kvcalc.report import plain
from tests.logs.wordings import ENGINES

DATA = Path(__file__).parents[1] / "data" / "logs"
LOGS = [path.read_bytes().split(b"\n") for path in sorted(DATA.glob("*.log"))]
LOGS += [[said.line.encode() for said in lines] for lines in ENGINES.values()]
MODELS = (None, "llama-3.1-8b", "gemma-3-27b", "deepseek-v3", "qwen3.5-9b")
DIGITS = (b"", b"0", b"-1", b"1e9", b"9" * 40, b"0.0", b"1,", b"nan")


def damaged(seed: int) -> tuple[bytes, str | None, str | None]:
    """A log with up to twelve wounds, and the model and GPU it is checked with."""
    rng = random.Random(seed)  # noqa: S311 - wounds, no secrets
    lines = list(rng.choice(LOGS))
    for _ in range(rng.randint(1, 12)):
        at = rng.randrange(len(lines))
        wound = rng.randrange(6)
        line = lines[at]
        if wound == 0 and len(lines) > 8:
            del lines[at : at + rng.randint(1, 5)]
        elif wound == 1:
            lines[at] = line[: rng.randint(0, len(line))]
        elif wound == 2:
            lines[at:at] = rng.choice(LOGS)[: rng.randint(1, 40)]
        elif wound == 3 and line:
            cut = rng.randrange(len(line))
            lines[at : at + 1] = [line[:cut], line[cut:]]
        elif wound == 4 and line:
            cut = rng.randrange(len(line))
            lines[at] = line[:cut] + rng.randbytes(1) + line[cut + 1 :]
        elif numbers := list(re.finditer(rb"[0-9]+", line)):
            one = rng.choice(numbers)
            lines[at] = line[: one.start()] + rng.choice(DIGITS) + line[one.end() :]
    return b"\n".join(lines), rng.choice(MODELS), rng.choice((None, "h100-sxm"))


@pytest.mark.parametrize("part", range(4))
def test_a_damaged_log_gives_what_it_holds_or_one_error(tmp_path: Path, part: int) -> None:
    path = tmp_path / "server.log"
    refused: list[tuple[str, str]] = []
    for seed in range(part * 100, part * 100 + 100):
        raw, model, gpu = damaged(seed)
        path.write_bytes(raw)
        try:
            shown = plain.render(check(str(path), model, gpu=gpu))
        except KvcalcError as error:
            refused.append((error.code, error.message))
        else:
            assert shown, seed
    assert len(refused) < 10
    assert {code for code, _ in refused} <= {"unreadable_input"}
    assert not [message for _, message in refused if "\n" in message]
