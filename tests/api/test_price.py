"""`fit --price`: an hour, a request's, a million tokens at the speed ceiling."""

from __future__ import annotations

from typing import Any

import pytest

import kvcalc
from kvcalc.core.results.fit import FitResult, Price
from tests.answers import ask

SEAT = {"weights": "fp8", "gpu": "4xh100", "context": 8192, "engine": "none"}


def fitted(model: str, **options: Any) -> FitResult:
    made = kvcalc.fit(model, **options)
    assert isinstance(made, FitResult)
    return made


def priced(model: str, **options: Any) -> Price:
    made = fitted(model, **options).price
    assert made is not None
    return made


def test_a_seat_on_four_gpus() -> None:
    """A pool of 57,906,120,566 B a GPU over 8,192 · 81,920 B is 86.3: 4 · 2.50 / 86 = 0.11628."""
    made = priced("llama-3.3-70b", **SEAT, kv_pool=57_906_120_566, price="2.50")
    assert made.per_gpu_hour == 2.5
    assert made.per_hour == 10
    assert made.per_request_hour == pytest.approx(10 / 86)
    assert made.per_request_hour_low == made.per_request_hour_high == made.per_request_hour


def test_a_million_tokens_at_the_speed_ceiling() -> None:
    """As many requests as fit, all of the full context, decode at what `speed` calls the most."""
    found = fitted("llama-3.3-70b", **SEAT, price=2.5)
    made = found.price
    assert made is not None
    ceiling = kvcalc.speed(
        "llama-3.3-70b", gpu="4xh100", weights="fp8", context=8192, requests=found.max_requests
    ).decode.tokens_per_second
    assert made.ceiling_tokens_per_second == pytest.approx(ceiling)
    assert made.per_million_output_tokens == pytest.approx(10 * 10**6 / (ceiling * 3600))


def test_experts_count_as_the_active_ones_alone() -> None:
    """No real million is cheaper than the price says, whichever experts are read."""
    found = fitted("mixtral-8x7b", gpu="4xh100", engine="none", price=1)
    made = found.price
    assert made is not None
    decode = kvcalc.speed("mixtral-8x7b", gpu="4xh100", requests=found.max_requests).decode
    assert decode.most_tokens_per_second is not None
    assert decode.most_tokens_per_second > decode.tokens_per_second
    assert made.ceiling_tokens_per_second == pytest.approx(decode.most_tokens_per_second)


def test_replicas_serve_twice_the_tokens_at_twice_the_price() -> None:
    one = priced("llama-3.1-8b", gpu="h100", engine="none", price=2)
    two = priced("llama-3.1-8b", gpu="2xh100", dp=2, engine="none", price=2)
    assert (two.per_hour, two.per_request_hour) == (4, one.per_request_hour)
    assert two.per_million_output_tokens == pytest.approx(one.per_million_output_tokens)


def test_stages_are_all_busy_at_the_ceiling() -> None:
    """2 stages of 1 GPU and 2 tensor ranks read the same bytes at the same rate."""
    options = {"engine": "none", "price": 2, "kv_pool": "40GiB", "gpu": "2xh100"}
    stages = fitted("llama-3.1-8b", **options, tp=1, pp=2)
    ranks = fitted("llama-3.1-8b", **options)
    assert stages.max_requests == ranks.max_requests
    assert stages.price is not None
    assert ranks.price is not None
    assert stages.price.ceiling_tokens_per_second == ranks.price.ceiling_tokens_per_second


def test_an_interval_of_requests_is_one_of_prices() -> None:
    found = fitted("llama-3.1-70b", gpu="h100", weights="int4", price=3)
    made = found.price
    assert made is not None
    assert found.max_requests_low < found.max_requests < found.max_requests_high
    assert made.per_request_hour_low == pytest.approx(3 / found.max_requests_high)
    assert made.per_request_hour == pytest.approx(3 / found.max_requests)
    assert made.per_request_hour_high == pytest.approx(3 / found.max_requests_low)


def test_without_a_price_there_is_none() -> None:
    assert fitted("llama-3.1-8b", gpu="h100").price is None
    assert ask("fit", "llama-3.1-8b", "--gpu", "h100", "--json").data["price"] is None


def test_what_is_not_known_is_null() -> None:
    """Memory or a pool alone have no speed; a GPU without figures says which."""
    memory = priced("llama-3.1-8b", gpu_memory="80GiB", engine="none", price=1)
    assert memory.per_million_output_tokens is None
    found = fitted("llama-3.1-8b", gpu="b100", engine="none", price=1)
    assert found.price is not None
    assert found.price.ceiling_tokens_per_second is None
    assert found.price.per_request_hour is not None
    assert [w.code for w in found.warnings] == ["token_price_unknown"]
    none = priced("llama-3.1-405b", gpu="h100", engine="none", price=1)
    assert none == Price(1, 1, None, None, None, None, None)


@pytest.mark.parametrize("form", ["plain", "md", "html"])
def test_every_reader_sees_it(form: str) -> None:
    text = ask(
        "fit", "llama-3.3-70b", "--weights", "fp8", "--gpu", "4xh100", "-c", "8192", "--kv-pool",
        "57906120566", "--engine", "none", "--price", "2.50", "-f", form,
    ).text  # fmt: skip
    assert "at 2.50 a GPU-hour" in text
    assert "0.1163" in text
    assert "million output tokens" in text


def test_a_table_has_a_column_of_prices() -> None:
    text = ask(
        "fit", "llama-3.3-70b", "--kv-pool", "57906120566", "--gpus", "4", "-c", "8192",
        "--kv-dtype", "bf16,fp8", "--engine", "none", "--price", "2.5", "-f", "plain",
    ).text.splitlines()  # fmt: skip
    assert [line.split()[-1] for line in text[2:5]] == ["hour", "0.1163", "0.0581"]


def test_the_command_asks_for_the_price_again() -> None:
    found = fitted("llama-3.1-8b", gpu="h100", engine="none", price="2.50")
    assert "--price 2.50" in found.ask_again


def test_gpus_that_differ_have_no_price_of_tokens() -> None:
    made = fitted("llama-3.1-8b", gpu="4090+3090", price=2)

    assert made.price is not None
    assert made.price.per_hour == 4
    assert made.price.per_million_output_tokens is None
    (warning,) = made.warnings
    assert warning.message == "no price of tokens: the speed of GPUs that differ is not known"
