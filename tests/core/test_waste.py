"""`waste`: the article's section 7 to the byte, pools, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.api.waste import waste
from kvcalc.cli.main import run
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.waste import PolicyWaste, WasteResult

TOKEN = 2 * 80 * 8 * 128 * 2  # bytes of a token of Llama-3.1 70B in bf16
GIB = 2**30
NUMBERS = {"layers": 80, "kv_heads": 8, "head_dim": 128}


def article(**options: object) -> WasteResult:
    """Requests of 500, 3,800 and 200 tokens of at most 4,096."""
    asked = {"request": [500, 3800, 200], "max_context": 4096, **NUMBERS, **options}
    return waste(**asked)  # type: ignore[arg-type]


def by_policy(result: WasteResult) -> dict[str, PolicyWaste]:
    return {p.policy: p for p in result.policies}


def test_naive_as_in_the_article() -> None:
    naive = by_policy(article())["naive"]
    assert naive.allocated_bytes == 3 * 4096 * TOKEN == 4_026_531_840
    assert naive.used_bytes == 4500 * TOKEN == 1_474_560_000
    assert naive.wasted_bytes == 4_026_531_840 - 1_474_560_000
    assert naive.waste_fraction == 7788 / 12288 == 0.6337890625  # tokens wasted of reserved


def test_the_articles_62_percent_is_a_maximum_of_4000() -> None:
    """1 − 4,500 / 12,000."""
    assert by_policy(article(max_context=4000))["naive"].waste_fraction == 0.625


def test_pages_waste_28_of_4528_tokens() -> None:
    """512 + 3,808 + 208 = 4,528 slots for 4,500 tokens."""
    paged = by_policy(article())["paged"]
    assert paged.allocated_tokens == 4528
    assert paged.wasted_bytes == 28 * TOKEN
    assert paged.waste_fraction == 28 / 4528 == 0.006183745583038869


def test_pow2_and_exact() -> None:
    found = by_policy(article())
    assert found["pow2"].allocated_bytes == (512 + 4096 + 256) * TOKEN
    assert found["pow2"].waste_fraction == 364 / 4864
    assert found["exact"].wasted_bytes == 0
    assert found["exact"].waste_fraction == 0.0


def test_each_request_on_its_own() -> None:
    first = article().per_request[0]
    assert (first.tokens, first.used_bytes) == (500, 500 * TOKEN)
    assert first.allocated_bytes == {
        "naive": 4096 * TOKEN, "pow2": 512 * TOKEN, "exact": 500 * TOKEN, "paged": 512 * TOKEN,
    }  # fmt: skip


def test_a_pool_of_45_gib() -> None:
    """45 GiB hold 147,456 tokens: 36 × 4,096, or 98.3 times the 1,500 used on average."""
    found = article(pool="45GiB")
    held = {p.policy: p.requests_per_pool for p in found.policies}
    assert found.pool_bytes == 147_456 * TOKEN
    # 147,456 · 3 / 4,864 = 90.9; / 4,500 = 98.3; / 4,528 = 97.7
    assert held == {"naive": 36, "pow2": 90, "exact": 98, "paged": 97}
    # 36 · 4,500 / 12,288
    assert found.effective_requests == 13.18359375
    assert {p.effective_requests for p in found.policies} == {13.18359375}


def test_effective_requests_do_not_need_naive_among_the_policies() -> None:
    assert article(pool="45GiB", policy="paged").effective_requests == 13.18359375
    without_maximum = waste(
        request=500, policy=["paged"], pool="45GiB", layers=80, kv_heads=8, head_dim=128
    )
    assert without_maximum.effective_requests is None


@pytest.mark.parametrize("fraction", [0.62, "0.62", "62%", ".62", "6.2e-1"])
def test_36_slots_at_62_percent_do_the_work_of_13_68(fraction: float | str) -> None:
    """36 · 0.38, exactly: in floats 36 · (1 − 0.62) may be off in the last digit."""
    found = waste(slots=36, waste_fraction=fraction)
    assert found.effective_requests == 13.68
    assert found.policies == ()


@pytest.mark.parametrize("fraction", ["1.01", "-0.1", "62", "nan", "1e999999999", "", "1/2", "x"])
def test_a_share_is_between_0_and_1(fraction: str) -> None:
    with pytest.raises(KvcalcError, match="is not a share from 0 to 1"):
        waste(slots=36, waste_fraction=fraction)


def test_static_cache_of_torch_compile() -> None:
    """Qwen3-8B, 32,768 reserved, prompt 2,000 and 50 generated: the last is never stored.

    36 layers · 2 · 8 heads · 128 · 2 bytes = 147,456 a token.
    """
    static, paged = waste(
        "qwen3-8b", request=2049, max_context=32768, policy=["naive", "paged"]
    ).policies
    assert static.allocated_bytes == 32_768 * 147_456 == 4_831_838_208
    assert static.used_bytes == 2_049 * 147_456 == 302_137_344
    assert static.wasted_bytes == 4_529_700_864
    assert round(static.waste_fraction, 4) == 0.9375
    assert paged.allocated_bytes == 129 * 16 * 147_456


def test_the_pool_of_a_gpu_is_what_the_weights_leave() -> None:
    found = article(gpu="h100-sxm", weight_bytes="35GiB")
    pool = found.pool
    assert pool is not None
    assert pool.memory_bytes is not None
    assert pool.memory_bytes > 79 * GIB
    assert found.pool_bytes == pool.memory_bytes - 35 * GIB
    assert (pool.gpu, pool.gpus, pool.weight_bytes) == ("h100-sxm", 1, 35 * GIB)
    two = article(gpu="2xh100-sxm", weight_bytes="35GiB")
    assert two.pool_bytes == 2 * pool.memory_bytes - 35 * GIB
    assert article(gpu="h100-sxm", gpus=2, weight_bytes="35GiB").pool_bytes == two.pool_bytes


def test_unknown_weights_are_said_and_too_large_ones_are_a_no() -> None:
    unknown = article(gpu="h100-sxm")
    assert [w.code for w in unknown.warnings] == ["weights_unknown"]
    assert unknown.yes
    full = article(gpu="h100-sxm", weight_bytes="200GiB")
    assert full.pool_bytes == 0
    assert {p.requests_per_pool for p in full.policies} == {0}
    assert not full.yes


def test_a_model_without_a_cache_wastes_nothing() -> None:
    found = waste(Model(id="mlp", name="MLP", layers=((),)), request=5, max_context=9, pool="1GiB")
    assert {p.waste_fraction for p in found.policies} == {0.0}
    assert {p.requests_per_pool for p in found.policies} == {None}


REFUSED = [
    ({"request": ()}, "usage", "--request is missing"),
    ({"max_context": None}, "usage", "--max-context is missing: naive and pow2 reserve by it"),
    ({"max_context": None, "policy": "pow2"}, "usage", "pow2 reserves by it"),
    ({"max_context": 3000}, "context_too_long", "3,800 is longer than --max-context 3,000"),
    ({"policy": ["naif"]}, "usage", 'no policy "naif"'),
    ({"pool": "45GiB", "gpu": "h100"}, "usage", "--pool and --gpu"),
    ({"pool": "45G"}, "usage", "two readings"),
    ({"slots": 36, "waste_fraction": 0.5}, "usage", "answer without MODEL and lengths"),
    ({"slots": 36}, "usage", "answer without MODEL and lengths"),
    ({"block_size": 0}, "usage", "--block-size"),
    ({"gpu": "2xh100", "gpus": 4}, "usage", "how many GPUs"),
    ({"request": [0]}, "usage", "--request"),
    ({"max_context_length": 2048}, "context_too_long", "ends at 2,048"),
]


@pytest.mark.parametrize(("options", "code", "text"), REFUSED)
def test_what_is_refused(options: dict[str, object], code: str, text: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        article(**options)
    assert caught.value.code == code
    assert text in caught.value.message


def test_slots_and_fraction_belong_together() -> None:
    with pytest.raises(KvcalcError, match="--waste-fraction is missing"):
        waste(slots=36)
    with pytest.raises(KvcalcError, match="--slots is missing"):
        waste(waste_fraction=0.5)


lengths = st.lists(st.integers(1, 4096), min_size=1, max_size=8)


@given(lengths, st.integers(1, 300), st.integers(2**20, 2**40))
def test_what_holds_for_any_requests(requests: list[int], block_size: int, pool: int) -> None:
    found = article(request=requests, block_size=block_size, pool=pool)
    for p in found.policies:
        assert p.allocated_bytes == p.used_bytes + p.wasted_bytes
        assert p.wasted_bytes >= 0
        assert 0 <= p.waste_fraction < 1
        assert p.requests_per_pool is not None
        # so many fit, one more does not
        each = p.allocated_bytes / len(requests)
        assert p.requests_per_pool * each <= pool * (1 + 1e-12)
        assert (p.requests_per_pool + 1) * each >= pool * (1 - 1e-12)
    rows = by_policy(found)
    assert rows["exact"].used_bytes == rows["exact"].allocated_bytes
    assert found.effective_requests is not None
    assert found.effective_requests <= (rows["naive"].requests_per_pool or 0)


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = "waste llama-3.1-70b --request 500 --request 3800,200 --max-context 4k --json"
    assert run(words.split()) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "kvcalc.waste/1"
    assert [p["policy"] for p in answer["data"]["policies"]] == ["naive", "pow2", "exact", "paged"]
    assert answer["data"]["policies"][0]["waste_fraction"] == 0.6337890625
    assert answer["data"]["requests"] == 3
    assert answer["data"]["max_context_tokens"] == 4096


def test_the_command_line_without_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["waste", "--slots", "36", "--waste-fraction", "0.62", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["effective_requests"] == 13.68
    assert run(["waste", "--slots", "36", "--waste-fraction", "0.62", "-f", "csv"]) == 0
    assert capsys.readouterr().out == "slots,waste_fraction,effective_requests\n36,0.62,13.68\n"


def test_weights_that_leave_nothing_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    words = "waste llama-3.1-70b --request 500 --max-context 4096 --gpu h100-sxm --json"
    assert run(words.split()) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["status"], answer["data"]["pool_bytes"]) == ("no", 0)


def test_an_error_in_one_line_and_an_envelope(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["waste", "llama-3.1-70b", "--request", "500", "--json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["errors"][0]["code"] == "usage"
    assert err.startswith("error: --max-context is missing")


def rows(tmp_path: Path, *lengths: tuple[object, object], name: str = "t.csv") -> str:
    """A trace of (prompt, output) pairs without times."""
    path = tmp_path / name
    lines = ["num_prefill_tokens,num_decode_tokens", *(f"{p},{o}" for p, o in lengths)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_a_trace_is_its_requests(tmp_path: Path) -> None:
    """400 + 101 − 1 = 500, 3,000 + 801 − 1 = 3,800, 200 + 1 − 1 = 200 stored tokens."""
    trace = rows(tmp_path, (400, 101), (3000, 801), (200, 1))
    found = article(request=[], trace=trace, pool=45 * GIB)
    given = article(pool=45 * GIB)

    assert found.policies == given.policies
    assert found.requests == given.requests == 3
    assert found.used_tokens == 4500
    assert found.per_request == ()
    assert found.trace is not None
    assert (found.trace.mean_tokens, found.trace.longest_tokens) == (1500, 3800)
    assert given.trace is None


def test_requests_beyond_the_maximum_are_counted_and_left_out(tmp_path: Path) -> None:
    trace = rows(tmp_path, (400, 101), (4096, 2), (200, 1))
    found = article(request=[], trace=trace)

    assert found.requests == 2
    assert found.trace is not None
    assert found.trace.rejected_requests == 1
    assert [w.code for w in found.warnings] == ["requests_rejected"]
    with pytest.raises(KvcalcError, match="no request of at most 100 tokens") as refused:
        article(request=[], trace=trace, max_context=100)
    assert refused.value.code == "invalid_trace"


def test_a_traces_maximum_is_the_models(tmp_path: Path) -> None:
    found = waste("llama-3.1-8b", trace=rows(tmp_path, (400, 101)))

    assert found.max_context_tokens == 131_072
    assert by_policy(found)["naive"].allocated_tokens == 131_072


def test_lines_that_are_no_requests(tmp_path: Path) -> None:
    trace = rows(tmp_path, (400, 101), ("x", 1), (200, 1))
    with pytest.raises(KvcalcError, match=r"t\.csv:3: num_prefill_tokens"):
        article(request=[], trace=trace)
    found = article(request=[], trace=trace, skip_bad=True)

    assert found.requests == 2
    assert found.trace is not None
    assert found.trace.skipped_lines == 1
    assert [w.code for w in found.warnings] == ["lines_skipped"]
    assert article(request=[], trace=trace, limit=1).requests == 1


def test_requests_are_given_once(tmp_path: Path) -> None:
    trace = rows(tmp_path, (400, 101))
    with pytest.raises(KvcalcError, match="--request and --trace both"):
        article(trace=trace)
    with pytest.raises(KvcalcError, match="--request is missing"):
        article(request=[])
    with pytest.raises(KvcalcError, match="without MODEL and lengths"):
        waste(slots=3, waste_fraction=0.5, trace=trace)


@given(st.lists(st.integers(1, 4096), min_size=1, max_size=30))
def test_a_count_of_lengths_is_the_lengths(lengths: list[int]) -> None:
    """Listed one by one or counted, in any order, the sums are the same."""
    spec = "poisson:rate=1,requests=1,prompt=1,output=1"
    assert waste("llama-3.1-8b", trace=spec).used_tokens == 1
    one, other = article(request=lengths), article(request=sorted(lengths))
    assert one.policies == other.policies
    assert one.used_tokens == sum(lengths)
    assert [u.tokens for u in one.per_request] == lengths
