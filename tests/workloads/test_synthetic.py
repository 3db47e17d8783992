"""Synthetic workloads: the same everywhere, with the means they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from kvcalc.core.errors import KvcalcError
from kvcalc.workloads.request import TraceRequest
from kvcalc.workloads.synthetic import Synthetic, is_spec


def gaps(requests: Sequence[TraceRequest]) -> list[float]:
    return [b.at - a.at for a, b in pairwise(requests)]


def test_the_same_requests_on_every_python() -> None:
    """Pinned: they must not change with the interpreter, for results are compared over years."""
    spec = "poisson:rate=5,prompt=lognormal(1200,0.9),output=exponential(200),requests=4,seed=7"
    assert [(r.at, r.prompt, r.output) for r in Synthetic(spec)] == [
        (0.078263, 593, 15),
        (0.231786, 1785, 142),
        (0.23943, 1908, 19),
        (0.349939, 2659, 51),
    ]
    bursty = "gamma:rate=2,cv=3,prompt=uniform(10,20),output=normal(50,5),requests=3,prefix=8"
    shared = (("prefix0", 8),)
    assert [(r.at, r.prompt, r.output, r.prefix) for r in Synthetic(bursty)] == [
        (0.0, 15, 51, shared),
        (0.029487, 13, 44, shared),
        (0.029487, 13, 57, shared),
    ]


@pytest.mark.parametrize(
    ("length", "mean"),
    [
        ("1200", 1200),
        ("uniform(100,300)", 200),
        ("normal(500,50)", 500),
        ("exponential(800)", 800),
        ("lognormal(1200,0.9)", 1200),
    ],
)
def test_lengths_have_the_mean_they_name(length: str, mean: float) -> None:
    requests = list(Synthetic(f"poisson:rate=5,prompt={length},output=10,requests=20000"))
    assert fmean(r.prompt for r in requests) == pytest.approx(mean, rel=0.03)
    assert {r.output for r in requests} == {10}


def test_a_last_number_caps() -> None:
    spec = "batch:prompt=lognormal(1200,0.9,2000),output=uniform(1,5,3),requests=5000"
    requests = list(Synthetic(spec))
    assert max(r.prompt for r in requests) == 2000
    assert {r.output for r in requests} == {1, 2, 3}
    assert {r.at for r in requests} == {0}


@pytest.mark.parametrize(
    ("kind", "cv"), [("poisson", 1), ("constant", 0), ("gamma", 1), ("gamma:cv=4,", 4)]
)
def test_arrivals_keep_rate_and_burstiness(kind: str, cv: float) -> None:
    spec = kind if ":" in kind else f"{kind}:"
    requests = list(Synthetic(f"{spec}rate=8,prompt=1,output=1,requests=40000"))
    found = gaps(requests)
    assert fmean(found) == pytest.approx(1 / 8, rel=0.06)
    assert pstdev(found) / fmean(found) == pytest.approx(cv, abs=0.06 * (cv + 0.1))


def test_seconds_end_a_stream_and_seeds_differ() -> None:
    spec = "poisson:rate=10,prompt=1,output=1,seconds=60"
    one = list(Synthetic(spec))
    assert 500 < len(one) < 700
    assert one[-1].at <= 60
    assert one != list(Synthetic(spec, seed=1))
    assert list(Synthetic(spec, limit=5)) == one[:5]


def test_prefixes_are_chosen_evenly() -> None:
    spec = "batch:prompt=100,output=1,prefix=64,prefixes=4,requests=4000"
    counts: dict[object, int] = {}
    for r in Synthetic(spec):
        counts[r.prefix] = counts.get(r.prefix, 0) + 1
    assert len(counts) == 4
    assert min(counts.values()) > 900


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("poisson:prompt=1,output=1", "workload: rate is missing"),
        ("poisson:rate=0,prompt=1,output=1", "workload: rate is 0, expected at least 0.000001"),
        ("poisson:rate=1e-300,prompt=1,output=1",
         "workload: rate is 1e-300, expected at least 0.000001"),
        ("gamma:rate=1,cv=1e-200,prompt=1,output=1",
         "workload: cv is 1e-200, expected at least 0.000001"),
        ("poisson:rate=1,prompt=1,output=1,requests=1000000000",
         "workload: 1,000,000,000 requests"),
        ("poisson:rate=1000,prompt=1,output=1,seconds=1000000", "workload: 1,000,000,000 requests"),
        ("poisson:rate=1,prompt=1,output=1,prefix=5,prefixes=1000000000",
         "workload: 1,000,000,000 prefixes"),
        ("poisson:rate=1,output=1", "workload: prompt is missing"),
        ("poisson:rate=1,prompt=1,output=1,promt=2", "workload: no part promt=2"),
        ("poisson:rate=1,prompt=zipf(1,2),output=1", "workload: prompt: no distribution zipf"),
        ("poisson:rate=1,prompt=normal(1),output=1",
         "workload: prompt=normal(1): normal takes 2 numbers"),
        ("poisson:rate=1,prompt=normal(1,x),output=1",
         "workload: prompt=normal(1,x): x is no number"),
        ("poisson:rate=1,prompt=-4,output=1", "workload: prompt is -4, expected at least 1"),
    ],
)  # fmt: skip
def test_faults_name_the_part(spec: str, message: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        list(Synthetic(spec))
    assert (caught.value.code, caught.value.message) == ("usage", message)


def test_what_is_a_spec() -> None:
    assert is_spec("poisson:rate=5")
    assert not is_spec("conv.csv")
    assert not is_spec("C:\\traces\\conv.csv")
