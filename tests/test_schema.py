"""The published schemas: valid themselves, and every answer and failure valid by them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kvcalc import KvcalcError
from kvcalc.core.errors import CODES
from kvcalc.schemas import DRAFT, RESULTS, schema
from tests.answers import ask

COMMANDS: dict[str, list[str]] = {
    "size": [
        "size llama-3.1-70b",
        "size gemma-3-27b -c 8k,32k --request 500,600 -n 4 --shared-prefix 100",
        "size deepseek-v3 --tp 8 --dcp 8",
        "size jamba-v0.1 --weights int4",
        "size whisper-large-v3 --encoder-tokens 100",
        "size deepseek-v4-flash",
        "size --group 5*window:8x128:1k --group 1*full:8x128",
        "size llama-3.1-8b,gpt-2 --kv-dtype bf16,fp8 -c 1",
    ],
    "fit": [
        "fit llama-3.1-70b --gpu h100 --weights int4 --engine none",
        "fit llama-3.1-405b --gpu h100 --engine none",
        "fit deepseek-v3 --gpu 8xh200 --pp 2 --dp 2 --engine none --average-context 100",
        "fit llama-3.1-8b --kv-pool 10GiB --engine none --block-size 16 --solve requests",
        "fit llama-3.1-8b --gpu 4090 --engine none --utilization 0.9 --reserve 1GiB",
        "fit mamba-2.8b --gpu t4 --engine none",
        "fit llama-3.1-70b --engine none",
        "fit --gpu 4090 --engine none",
        "fit llama-3.1-8b --gpu h100,t4 --engine none",
        "fit llama-3.1-8b --kv-dtype bf16,fp8 --engine none",
    ],
    "timeline": [
        "timeline llama-3.1-70b --prompt 4096 --output 4096",
        "timeline llama-3.1-8b --request 100:50 --request 20:10@5 --max-context 200",
        "timeline llama-3.1-70b --prompt 4k --output 124k --weights int4 --gpu a100",
        "timeline llama-3.1-8b --prompt 1,2 --output 5",
    ],
    "waste": [
        "waste llama-3.1-70b --request 500 --request 3800 --max-context 4096 --pool 45GiB",
        "waste --slots 36 --waste-fraction 0.62",
        "waste llama-3.1-8b --request 4k --policy paged --block-size 16,32",
    ],
    "tradeoff": ["tradeoff llama-3.1-8b --tokens 1000", "tradeoff jamba-v0.1 --tokens 5"],
    "speed": [
        "speed llama-3.1-70b --gpu h100 -n 8 --weights int4",
        "speed deepseek-v3 --gpu 8xh200",
        "speed llama-3.1-8b --gpu h100,a100",
    ],
    "offload": [
        "offload llama-3.1-8b",
        "offload deepseek-v3 --tp 8 -n 9 --max-local-cpu-size 50 --bandwidth 200Gb/s --gpu h200",
        "offload llama-3.1-8b --pool 50GiB --host-ram 1TB --requests-per-second 2.5",
        "offload llama-3.1-8b --pool 50GiB,60GiB",
    ],
    "compare": [
        "compare llama-3.1-70b",
        "compare llama-3.1-70b --request 500,3800 --max-context 4096 --window 1024 --keep 512",
        "compare deepseek-v3 -n 10 --shared-prefix 100",
    ],
    "models": ["models", "models --family mixtral", "models show gemma-3-27b"],
    "gpus": ["gpus", "gpus --min-memory 80GB", "gpus show h100"],
    "dtypes": ["dtypes", "dtypes q8_0"],
}
ANSWERS = [(command, line) for command, lines in COMMANDS.items() for line in lines]


def validator(command: str | None) -> Draft202012Validator:
    return Draft202012Validator(schema(command))


def faults(check: Draft202012Validator, envelope: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in check.iter_errors(envelope)]


@pytest.mark.parametrize("command", [None, *RESULTS])
def test_schemas_are_valid_2020_12(command: str | None) -> None:
    found = schema(command)

    assert found["$schema"] == DRAFT == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(found)
    assert json.loads(json.dumps(found)) == found


def test_every_command_with_an_answer_has_a_schema() -> None:
    # The others have answers in tests of their own: goldens, tests/logs, tests/report, tests/core.
    others = {"check", "engines", "explain", "report", "simulate", "workload"}
    assert set(RESULTS) == set(COMMANDS) | others


@pytest.mark.parametrize(("command", "line"), ANSWERS)
def test_answers_are_valid(command: str, line: str) -> None:
    answer = ask(*line.split(), "--json")

    assert answer.code in {0, 1}
    assert answer.envelope["data"] is not None
    assert faults(validator(command), answer.envelope) == []
    assert faults(validator(None), answer.envelope) == []


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("words", ["no-such-name", "--no-such-option", "llama-3.1-8b --format x"])
def test_failures_are_valid(command: str, words: str) -> None:
    answer = ask(command, *words.split(), "--json")

    assert (answer.code, answer.envelope["status"]) == (2, "error")
    assert faults(validator(command), answer.envelope) == []


def test_an_unknown_commands_failure_is_valid() -> None:
    envelope = ask("no-such-command", "--json").envelope

    assert envelope["schema"] == "kvcalc.error/1"
    assert faults(validator(None), envelope) == []


def test_what_the_contract_forbids_is_invalid() -> None:
    """A float or a text for bytes, a missing field, an unknown status or code, another schema."""
    good = ask("size", "llama-3.1-8b", "--json").envelope
    check = validator("size")
    damaged: list[dict[str, Any]] = [
        {**good, "data": {**good["data"], "bytes_per_token": 131_072.5}},
        {**good, "data": {**good["data"], "bytes_per_token": "128 KiB"}},
        {**good, "data": {k: v for k, v in good["data"].items() if k != "contexts"}},
        {**good, "data": {**good["data"], "layers": [{"kind": "full"}]}},
        {**good, "status": "fine"},
        {**good, "schema": "kvcalc.fit/1"},
        {**good, "errors": [{"code": "oops", "message": "x", "hint": None}]},
        {k: v for k, v in good.items() if k != "warnings"},
    ]

    assert faults(check, good) == []
    for envelope in damaged:
        assert faults(check, envelope) != []


def test_the_command_prints_the_schema() -> None:
    assert json.loads(ask("schema", "fit").text) == schema("fit")
    assert json.loads(ask("schema").text) == schema()


def test_error_codes_are_the_contracts() -> None:
    codes = schema("size")["properties"]["errors"]["items"]["properties"]["code"]["enum"]

    assert tuple(codes) == CODES
    assert {"usage", "unknown_model", "not_divisible", "internal"} <= set(codes)


def test_a_command_without_json_has_no_schema() -> None:
    with pytest.raises(KvcalcError, match='no schema "batch"') as refused:
        schema("batch")

    assert refused.value.code == "usage"
    assert ask("schema", "siz").code == 2


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        (
            "size",
            (
                "model kv_dtype bytes_per_token state_bytes_per_request formula defaulted layers"
                " contexts batch attention_variants shapes weights engine"
            ),
        ),
        (
            "fit",
            (
                "model gpu engine parallel replicas fits budget kv_pool_bytes bytes_per_request"
                " kv_pool_tokens block_tokens context_tokens max_requests max_requests_low"
                " max_requests_high max_context_tokens ladder ideal ranks shortfall_bytes"
                " startup_lines limits suggestions command"
            ),
        ),
        ("timeline", "points milestones peak crosses_weights_at_tokens out_of_memory_at_step"),
        ("waste", "requests max_context_tokens pool_bytes policies effective_requests"),
        (
            "tradeoff",
            (
                "tokens uncached_token_passes cached_token_passes ratio per_step uncached_flops"
                " cached_flops kv_bytes"
            ),
        ),
        ("speed", "prefill decode ridge"),
        (
            "offload",
            (
                "contexts pool bandwidth stream settings notes fits sessions chunk_tokens"
                " bytes_per_token bytes_per_token_per_rank"
            ),
        ),
        ("compare", "baseline_bytes techniques"),
        ("dtypes", "items"),
    ],
)
def test_the_contracts_fields_are_required(command: str, fields: str) -> None:
    data = schema(command)["properties"]["data"]["anyOf"][0]["anyOf"][0]

    assert set(fields.split()) <= set(data["required"])


@pytest.mark.parametrize(
    ("command", "field", "keys"),
    [
        (
            "size",
            "contexts",
            (
                "tokens bytes_per_request requests total_bytes bytes_per_gpu engine_bytes"
                " engine_blocks engine_items"
            ),
        ),
        (
            "size",
            "layers",
            (
                "kind count indices kv_heads key_dim value_dim window_tokens bytes_per_token"
                " state_bytes"
            ),
        ),
        ("size", "shapes", "kind contiguous paged"),
        ("fit", "budget", "item bytes basis low_bytes high_bytes note"),
        ("fit", "ladder", "context_tokens max_requests fits"),
        (
            "fit",
            "ranks",
            "rank stage layers weight_bytes kv_pool_bytes kv_bytes_per_token tokens",
        ),
        ("fit", "suggestions", "change argument max_requests max_context_tokens fits"),
        ("fit", "limits", "code message"),
        ("timeline", "points", "step phase tokens kv_bytes paged_bytes naive_bytes"),
        ("timeline", "milestones", "label step tokens kv_bytes"),
        (
            "waste",
            "policies",
            (
                "policy allocated_bytes used_bytes wasted_bytes waste_fraction requests_per_pool"
                " effective_requests"
            ),
        ),
        (
            "tradeoff",
            "per_step",
            "token uncached_passes cached_passes projection_flops attention_flops",
        ),
        ("compare", "techniques", "technique bytes saved_bytes factor quality note"),
    ],
)
def test_the_contracts_lists_have_their_keys(command: str, field: str, keys: str) -> None:
    data = schema(command)["properties"]["data"]["anyOf"][0]["anyOf"][0]

    assert set(keys.split()) <= set(data["properties"][field]["items"]["required"])
