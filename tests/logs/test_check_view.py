"""`kvcalc check` on a screen, in its other formats, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvcalc.api.check import check
from kvcalc.cli import main
from kvcalc.core.results.check import CheckResult
from kvcalc.report import md, plain, text

DATA = Path(__file__).parents[1] / "data" / "logs"
VLLM = DATA / "vllm-0.12.0-01.log"


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> object:
    """The program; returns exit code, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        code = main.run([str(word) for word in words])
        out, err = capfd.readouterr()
        return code, out, err

    return run


def lines(result: CheckResult, width: int = 80) -> list[str]:
    """The screen of that width, without colours."""
    return text.render(result, width=width, height=None, colour=False).splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_screen(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    for path in sorted(DATA.glob("*.log")):
        # A name alone in its line has no blank to break at.
        whole = [line for line in lines(check(path.name), width) if " " in line.strip()]
        longest = max(whole, key=len)
        assert len(longest) <= width, longest


def test_the_screen_of_a_log_whose_figures_agree() -> None:
    shown = lines(check(str(VLLM), gpu="a100-40-sxm"))

    assert (
        shown[0] == "✓ vllm 0.12.0, gpt-oss-20b mxfp4, 1 × a100-40-sxm: all 4 figures as predicted"
    )
    assert any(line.startswith("  ✓ KV tokens        460,688  ≈460,704") for line in shown)
    assert any(line.startswith("  ✓ concurrency       35.18×   ≈35.18×") for line in shown)
    assert any(line.startswith("  · CUDA graphs GiB     2.67         –") for line in shown)
    assert any("max_num_seqs allows 64" in line.replace("\n", " ") for line in shown)


def test_what_is_off_is_marked_and_explained_first() -> None:
    result = check(str(VLLM), "llama-3.1-8b")
    shown = lines(result)

    assert shown[0].startswith("✗ vllm 0.12.0, Llama-3.1-8B mxfp4" if result.weights else "✗ vllm")
    assert any(line.startswith("  ✗ KV tokens") for line in shown)
    table = next(i for i, line in enumerate(shown) if line.startswith("  ✗"))
    prose = [line for line in shown[table:] if line.startswith("  ") and ": " in line]
    assert "than expected" in prose[0]


def test_a_log_with_nothing_to_compare_says_what_is_missing() -> None:
    shown = lines(check(str(DATA / "sglang-0.5-01.log")))

    assert shown[0] == "sglang, 8 × GPU: 15 figures read, nothing to compare"
    assert any("give MODEL after the log" in line for line in shown)


def test_plain_and_markdown_hold_the_same_figures() -> None:
    result = check(str(VLLM))

    for rendered in (plain.render(result), md.render(result)):
        assert "460,688" in rendered
        assert "35.18×" in rendered
        assert "\x1b" not in rendered


def test_exit_codes_and_the_envelope(cli: object) -> None:
    assert callable(cli)
    code, out, _ = cli("check", VLLM, "--json")
    wrapped = json.loads(out)
    assert (code, wrapped["schema"], wrapped["status"]) == (0, "kvcalc.check/1", "ok")
    assert wrapped["data"]["engine"] == "vllm"

    code, out, _ = cli("check", VLLM, "llama-3.1-8b", "--json")
    assert (code, json.loads(out)["status"]) == (1, "no")

    code, out, err = cli("check", DATA / "none.log", "--json")
    assert (code, json.loads(out)["errors"][0]["code"]) == (2, "unreadable_input")
    assert err.startswith("error: cannot read ")


def test_csv_and_jsonl_hold_one_row_a_figure(cli: object) -> None:
    assert callable(cli)
    rows = check(str(VLLM)).rows
    _, out, _ = cli("check", VLLM, "-f", "csv")
    assert out.startswith("item,measured,predicted,error_fraction,verdict,explanation,unit,")
    assert len(out.splitlines()) == len(rows) + 1
    _, out, _ = cli("check", VLLM, "-f", "jsonl")
    assert [json.loads(line)["item"] for line in out.splitlines()] == [r.item for r in rows]


def test_measured_writes_a_profile(cli: object, tmp_path: Path) -> None:
    assert callable(cli)
    path = tmp_path / "vllm.toml"
    code, _, _ = cli("check", VLLM, "--gpu", "a100-40-sxm", "--measured", path)
    assert code == 0
    assert path.read_text("utf-8").count("[coefficients.") == 1

    code, _, err = cli("check", DATA / "llama.cpp-2024-01.log", "--measured", path)
    assert code == 2
    assert "--measured" in err


def test_usage_errors_are_one_line(cli: object) -> None:
    assert callable(cli)
    for words in (("check",), ("check", VLLM, "a", "b"), ("check", VLLM, "--set", "x=1")):
        code, _, err = cli(*words)
        assert code == 2
        assert err.splitlines()[0].startswith("error: ")
