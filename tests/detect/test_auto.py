"""`gpus --detect` and `--gpu auto` from end to end, on machines made of scripts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import kvcalc
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import GIB, MIB
from kvcalc.schemas import schema
from tests.answers import ask
from tests.detect.conftest import Tools

SMI = "nvidia-smi"


def line(index: int, name: str, total: int, used: int = 4) -> str:
    return f"{index}, {name}, {total}, {used}, {total - used}, 570.1, GPU-{index}a, [N/A]"


def h100s(count: int, used: int = 4) -> str:
    return "\n".join(line(i, "NVIDIA H100 80GB HBM3", 81_559, used) for i in range(count))


MIXED = "\n".join([
    line(0, "NVIDIA GeForce RTX 5070 Ti", 16_303),
    line(1, "NVIDIA GeForce RTX 5090", 32_607),
    line(2, "NVIDIA GeForce RTX 5090", 32_607),
])  # fmt: skip
FIT = ("fit", "llama-3.1-8b", "--engine", "none", "--gpu")


def failure(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[str, str]:
    """Message and hint of a command that could not answer."""
    assert ask(*argv).code == 2
    error, _, hint = capsys.readouterr().err.rstrip("\n").partition("\n hint: ")
    return error.removeprefix("error: "), hint


def test_the_list_has_what_the_tool_reads_and_the_preset(tools: Tools) -> None:
    tools(SMI, h100s(2, used=1024))
    data = ask("gpus", "--detect", "--json").data

    assert data["items"][1] == {
        "index": 1,
        "name": "NVIDIA H100 80GB HBM3",
        "preset": "h100-sxm",
        "memory_total_bytes": 81_559 * MIB,
        "memory_used_bytes": 1024 * MIB,
        "memory_free_bytes": 80_535 * MIB,
        "memory_bytes": round(79.18 * GIB),
        "source": "nvidia-smi",
        "driver_version": "570.1",
        "visible": True,
        "reason": None,
    }


def test_a_gpu_without_a_preset_is_listed_with_the_reason(tools: Tools) -> None:
    tools(SMI, line(0, "NVIDIA GeForce RTX 4090 Laptop GPU", 16_376))
    answer = ask("gpus", "--detect", "--json")
    (item,) = answer.data["items"]

    assert (answer.code, item["preset"], item["memory_bytes"]) == (0, None, None)
    assert item["reason"] == "no preset has this name; --gpu-memory 16376MiB"


def test_hidden_gpus_are_listed_as_such(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    tools(SMI, h100s(2))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    envelope = ask("gpus", "--detect", "--json").envelope

    assert [item["visible"] for item in envelope["data"]["items"]] == [False, True]
    assert envelope["warnings"] == [
        {"code": "gpus_hidden", "message": "CUDA_VISIBLE_DEVICES leaves 1 of 2 GPUs"}
    ]


@pytest.mark.parametrize("text", [h100s(2), MIXED, line(0, "NVIDIA X", 9)])
def test_the_list_follows_its_schema(tools: Tools, text: str) -> None:
    tools(SMI, text)

    Draft202012Validator(schema("gpus")).validate(ask("gpus", "--detect", "--json").envelope)


def test_the_list_in_words_and_in_csv(tools: Tools) -> None:
    tools(SMI, MIXED)
    words = ask("gpus", "--detect").text
    csv = ask("gpus", "--detect", "-f", "csv").text.splitlines()
    names = ask("gpus", "--detect", "--names").text.split()

    assert words.startswith("1 × rtx5070ti and 2 × rtx5090: kvcalc fit MODEL --gpu auto.")
    assert len(csv) == 4
    assert csv[0].startswith("index,name,preset,memory_total_bytes,memory_used_bytes,")
    assert names == ["rtx5070ti", "rtx5090", "rtx5090"]
    assert ask("gpus", "auto").text == words


def test_detect_stands_alone(tools: Tools, capsys: pytest.CaptureFixture[str]) -> None:
    tools(SMI, h100s(1))
    for more in (["h100"], ["--vendor", "AMD"], ["--min-memory", "80GB"]):
        message, _ = failure(capsys, "gpus", "--detect", *more)
        assert message == "--detect lists this machine's GPUs, all of them"


@pytest.mark.usefixtures("tools")
def test_a_machine_without_a_gpu_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("gpus", "--detect"), (*FIT, "auto")):
        message, hint = failure(capsys, *words)
        assert message == (
            "no GPU found on this machine (not installed: NVML (kvcalc[gpu]), nvidia-smi, "
            "rocm-smi, amd-smi, system_profiler)"
        )
        assert hint == "name one with --gpu; all GPUs: kvcalc gpus"


@pytest.mark.parametrize(("words", "stands_for"), [
    (("auto",), "4xh100-sxm"),
    (("AUTO",), "4xh100-sxm"),
    (("2xauto",), "2xh100-sxm"),
    (("1xauto",), "h100-sxm"),
    (("4 x auto",), "4xh100-sxm"),
    (("auto", "--gpus", "2"), "h100-sxm --gpus 2"),
    (("auto", "--tp", "2"), "h100-sxm --tp 2"),
    (("auto", "--pp", "2"), "h100-sxm --pp 2"),
    (("auto", "--tp", "2", "--pp", "2"), "h100-sxm --tp 2 --pp 2"),
])  # fmt: skip
def test_auto_is_the_named_machine_in_every_figure(
    tools: Tools, words: tuple[str, ...], stands_for: str
) -> None:
    """Nothing of the answer depends on how the machine was named."""
    tools(SMI, h100s(4))
    auto, named = ask(*FIT, *words, "--json"), ask(*FIT, *stands_for.split(), "--json")

    assert auto.text == named.text
    assert auto.data["gpu"]["id"] == "h100-sxm"
    assert "auto" not in auto.data["command"]


@pytest.mark.parametrize(("words", "message"), [
    (("auto", "--gpus", "8"), "--gpu auto: 8 GPUs of a machine that has 4xh100-sxm"),
    (("8xauto",), "--gpu auto: 8 GPUs of a machine that has 4xh100-sxm"),
    (("auto", "--tp", "4", "--dp", "2"), "--gpu auto: 8 GPUs of a machine that has 4xh100-sxm"),
    (("0xauto",), "--gpu COUNTxauto "),
    (("auto", "--gpus", "some"), "--gpus some is not"),
    (("2xauto", "--gpus", "4"), "--gpu COUNTxNAME 2, --gpus 4: how many GPUs?"),
])  # fmt: skip
def test_what_the_machine_does_not_have_is_refused(
    tools: Tools, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    tools(SMI, h100s(4))

    assert failure(capsys, *FIT, *words)[0].startswith(message)


def test_unlike_gpus_are_one_text(tools: Tools, capsys: pytest.CaptureFixture[str]) -> None:
    """What becomes of it is not decided where the machine is read."""
    from kvcalc.api.detect import machine_name  # noqa: PLC0415 - only here by its name

    tools(SMI, MIXED)

    assert machine_name("auto", {})[0] == "rtx5070ti+2xrtx5090"
    assert machine_name("auto", {"gpus": 3})[0] == "rtx5070ti+2xrtx5090"
    message, hint = failure(capsys, *FIT, "2xauto")
    assert message == "--gpu auto: which 2 of rtx5070ti+2xrtx5090?"
    assert hint == "name it, like --gpu rtx5070ti"


def test_unlike_gpus_of_which_a_number_picks_one(
    tools: Tools, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tools(SMI, MIXED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    message, hint = failure(capsys, *FIT, "auto")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

    assert message == ("--gpu auto: CUDA_VISIBLE_DEVICES counts unlike GPUs in an order of its own")
    assert hint == "name them by UUID, or set CUDA_DEVICE_ORDER=PCI_BUS_ID; or say --gpu rtx5070ti"
    assert ask(*FIT, "auto", "--json").data["gpu"]["id"] == "rtx5070ti"


def test_a_gpu_without_a_preset_is_an_error_that_helps(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    tools(SMI, line(0, "NVIDIA GeForce RTX 4090 Laptop GPU", 16_376))
    message, hint = failure(capsys, *FIT, "auto")

    assert message == (
        '--gpu auto: GPU 0 is "NVIDIA GeForce RTX 4090 Laptop GPU", 15.99 GiB by nvidia-smi: '
        "no preset has this name"
    )
    assert hint == (
        "where the command takes it, --gpu-memory 16376MiB; or a user preset with that alias"
    )
    assert ask("fit", "llama-3.2-1b", "--engine", "none", "--gpu-memory", "16376MiB").code == 0


def test_a_card_beside_a_processors_own_graphics(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    tools("rocm-smi", json.dumps({
        "card0": {"Card Series": "Radeon RX 7900 XTX", "VRAM Total Memory (B)": "25753026560"},
        "card1": {"Card Series": "Raphael", "VRAM Total Memory (B)": "536870912"},
    }))  # fmt: skip
    message, hint = failure(capsys, *FIT, "auto")

    assert '"Raphael", 512 MiB by rocm-smi: no preset has this name' in message
    assert hint == "without it: --gpu rx7900xtx; or give it a user preset with that alias"


def test_a_size_that_contradicts_the_preset_names_both(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    """46,068 MiB is an RTX A6000 with ECC on; the preset is the card with ECC off."""
    tools(SMI, line(0, "NVIDIA RTX A6000", 46_068))
    message, hint = failure(capsys, *FIT, "auto")

    assert "44.99 GiB by nvidia-smi: rtx-a6000 is called so and has 47.99 GiB" in message
    assert "--gpu-memory 46068MiB" in hint


@pytest.mark.parametrize(("name", "mib", "mode", "hint"), [
    ("NVIDIA A100-SXM4-40GB", 40_960, "Enabled", "--gpu-memory SIZE, that of one slice;"),
    ("NVIDIA L4", None, "[N/A]", "--gpu-memory SIZE; or"),
])  # fmt: skip
def test_a_size_that_is_not_known_is_not_offered(
    tools: Tools, capsys: pytest.CaptureFixture[str],
    name: str, mib: int | None, mode: str, hint: str,
) -> None:  # fmt: skip
    memory = "[N/A], [N/A], [N/A]" if mib is None else f"{mib}, 0, {mib}"
    tools(SMI, f"0, {name}, {memory}, 550, GPU-a, {mode}")

    assert hint in failure(capsys, *FIT, "auto")[1]


def test_memory_in_use_is_told_and_not_subtracted(tools: Tools) -> None:
    """12,583 of 81,559 MiB are 15%; the other GPU's 600 MiB are under 1%, its driver's."""
    tools(SMI, h100s(1, used=600) + "\n" + line(1, "NVIDIA H100 80GB HBM3", 81_559, 12_583))
    auto = ask("fit", "llama-3.1-8b", "--gpu", "auto", "--json").envelope
    named = ask("fit", "llama-3.1-8b", "--gpu", "2xh100-sxm", "--json").envelope

    assert auto["data"] == named["data"]
    assert auto["warnings"] == [{
        "code": "gpu_memory_in_use",
        "message": "GPU 1 has 12.29 GiB in use now, which is not subtracted; --reserve 12583MiB "
        "leaves it alone; vllm does not start where less than its utilization of the total is free",
    }]  # fmt: skip


@pytest.mark.parametrize(("words", "told"), [
    (("fit", "llama-3.1-8b", "--engine", "sglang"), "; --reserve 20000MiB leaves it alone"),
    (("fit", "llama-3.1-8b", "--engine", "none", "--reserve", "20GiB"), ""),
    (("speed", "llama-3.1-8b"), ""),
])  # fmt: skip
def test_advice_is_only_what_the_command_takes(
    tools: Tools, words: tuple[str, ...], told: str
) -> None:
    tools(SMI, h100s(2, used=20_000))
    (warning,) = ask(*words, "--gpu", "auto", "--json").envelope["warnings"]
    head = "GPUs 0, 1 have up to 19.53 GiB in use now, which is not subtracted"

    assert warning["message"] == head + told


def test_only_the_gpus_taken_are_judged_busy(tools: Tools) -> None:
    tools(SMI, h100s(1) + "\n" + line(1, "NVIDIA H100 80GB HBM3", 81_559, 12_583))

    assert ask(*FIT, "1xauto", "--json").envelope["warnings"] == []


def test_warnings_stand_in_words_too(tools: Tools) -> None:
    tools(SMI, h100s(2, used=20_000))
    for words in (FIT, ("fit", "--gpu"), ("explain", "gqa", "--gpu"), ("speed", "gpt-2", "--gpu")):
        assert "in use now, which is not" in ask(*words, "auto").text, words


def test_a_tool_that_failed_first_is_told(tools: Tools) -> None:
    tools(SMI, "NVIDIA-SMI has failed because", code=9)
    tools("rocm-smi", json.dumps({"card0": {
        "Card Series": "AMD Instinct MI300X", "VRAM Total Memory (B)": "206141652992",
        "VRAM Total Used Memory (B)": "299687936",
    }}))  # fmt: skip
    envelope = ask(*FIT, "auto", "--json").envelope

    assert envelope["data"]["gpu"]["id"] == "mi300x"
    assert [w["code"] for w in envelope["warnings"]] == ["gpu_tool_failed"]


@pytest.mark.parametrize(("command", "words", "path"), [
    ("speed", "llama-3.1-8b", ("gpu", "count")),
    ("timeline", "llama-3.1-8b --prompt 4096 --output 100", ("machine", "count")),
    ("waste", "llama-3.1-8b --request 500,3800 --max-context 4096", ("pool", "gpus")),
    ("explain", "gqa llama-3.1-8b", None),
    ("report", "llama-3.1-8b -f md", None),
    ("simulate", "llama-3.1-8b --trace poisson:rate=5,prompt=100,output=20,seconds=5", None),
])  # fmt: skip
def test_every_command_with_a_gpu_takes_auto(
    tools: Tools, command: str, words: str, path: tuple[str, str] | None
) -> None:
    tools(SMI, h100s(2))
    form = () if "-f" in words else ("--json",)
    auto = ask(command, *words.split(), "--gpu", "auto", *form)
    named = ask(command, *words.split(), "--gpu", "2xh100-sxm", *form)

    assert auto.code == 0
    assert auto.text == named.text
    assert path is None or "h100-sxm" in auto.text


def test_in_a_table_the_row_says_which_machine(tools: Tools) -> None:
    tools(SMI, h100s(2, used=20_000))
    envelope = ask(*FIT, "auto,h200", "-c", "8K,32K", "--json").envelope
    rows = envelope["data"]["rows"]

    assert [row["combination"]["gpu"] for row in rows] == ["2xh100-sxm"] * 2 + ["h200"] * 2
    assert len(envelope["warnings"]) == 1
    assert "in use now" in ask(*FIT, "auto", "-c", "8K,32K").text


def test_a_report_compares_machines(tools: Tools) -> None:
    tools(SMI, h100s(2))
    text = ask("report", "llama-3.1-8b", "--gpu", "auto,h200", "-f", "md").text

    assert "2 × h100-sxm" in text
    assert "auto" not in text


def test_a_pasted_line_takes_what_its_engine_would(tools: Tools) -> None:
    """vLLM takes one GPU unless told; llama-server spreads over all."""
    tools(SMI, h100s(2))

    def gpus(*line: str) -> Any:
        return ask("fit", "--gpu", "auto", "--json", "--", *line).data["gpu"]["count"]

    assert gpus("vllm", "serve", "meta-llama/Llama-3.1-8B") == 1
    assert gpus("vllm", "serve", "meta-llama/Llama-3.1-8B", "-tp", "2") == 2
    assert gpus("llama-server", "-m", "Llama-3.1-8B-Q4_K_M.gguf", "-c", "8192") == 2


@pytest.mark.usefixtures("kvcalc_toml")
def test_configuration_may_say_auto(tools: Tools) -> None:
    tools(SMI, h100s(2))
    data = ask("fit", "llama-3.1-8b", "--engine", "none", "--json").data
    pasted = ask("fit", "--json", "--", "vllm", "serve", "meta-llama/Llama-3.1-8B").data

    assert (data["gpu"]["id"], data["gpu"]["count"]) == ("h100-sxm", 2)
    assert pasted["gpu"]["count"] == 1


@pytest.fixture
def kvcalc_toml(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kvcalc.toml").write_text('[fit]\ngpu = "auto"\n')
    monkeypatch.chdir(tmp_path)


def test_from_python(tools: Tools) -> None:
    tools(SMI, h100s(2, used=20_000))
    found = kvcalc.fit("llama-3.1-8b", gpu="auto", engine="none")
    listed = kvcalc.gpus(detect=True).to_dict()["items"]

    assert found.to_dict()["gpu"]["count"] == 2
    assert [w.code for w in found.warnings] == ["gpu_memory_in_use"]
    assert [item["preset"] for item in listed] == ["h100-sxm"] * 2


def test_from_python_without_a_gpu(tools: Tools) -> None:
    tools(SMI, "No devices were found", code=6)
    with pytest.raises(KvcalcError, match="no devices were found"):
        kvcalc.speed("llama-3.1-8b", gpu="auto")


def test_a_batch_asks_the_machine_once(tools: Tools, tmp_path: Any) -> None:
    from kvcalc.cli.stream import answers  # noqa: PLC0415 - batch alone

    tools(SMI, body=f"echo asked >> {tmp_path}/asked; printf '%s' '{h100s(2)}'")
    question = b'{"command": "fit", "model": "llama-3.1-8b", "engine": "none", "gpu": "auto"}'
    found = [json.loads(text) for text, _ in answers([question] * 5)]

    assert [f["data"]["gpu"]["count"] for f in found] == [2] * 5
    assert len((tmp_path / "asked").read_text().splitlines()) <= 2


def test_a_mac_is_asked_too(tools: Tools, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = '{"SPDisplaysDataType": [{"_name": "Apple M3 Max", "sppci_model": "Apple M3 Max"}]}'
    tools("system_profiler", gpu)
    tools("sysctl", body='[ "$2" = hw.memsize ] && echo 137438953472 || echo 0')
    assert ask(*FIT, "auto", "--json").data["gpu"]["id"] == "apple-m3-max"

    tools("sysctl", body='[ "$2" = hw.memsize ] && echo 38654705664 || echo 0')
    message, hint = failure(capsys, *FIT, "auto")
    assert "36 GiB by system_profiler: apple-m3-max is called so and has 128 GiB" in message
    assert "recommendedMaxWorkingSetSize" in hint
