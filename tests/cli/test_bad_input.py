"""Bad input: one line that names what and where, a hint what to do; exit 2, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

Kvcalc = Callable[..., "subprocess.CompletedProcess[str]"]
SIZE = ("size", "llama-3.1-8b")
FIT = ("fit", "llama-3.1-8b", "--gpu", "h100", "--engine", "none")
OFFLOAD = ("offload", "llama-3.1-8b")
HUGE = "9" * 40


@pytest.mark.parametrize(("args", "said"), [
    ((*SIZE, "-c", "0"), "-c is 0"),
    ((*SIZE, "-c", "-5"), "-c is -5"),
    ((*SIZE, "-c=-5"), "-c"),
    ((*SIZE, "--context=-5"), "-c is -5"),
    ((*SIZE, "-c", "1.5"), "-c 1.5"),
    ((*SIZE, "-c", "1.5k"), "-c 1.5k"),
    ((*SIZE, "-c", "1e6"), "-c 1e6"),
    ((*SIZE, "-c", "many"), "-c many"),
    ((*SIZE, "-c", ""), '-c ""'),
    ((*SIZE, "-c", "4096,,8192"), "-c"),
    ((*SIZE, "-c", HUGE), "-c"),
    ((*SIZE, "-c", HUGE, "--allow-long-context"), "-c"),
    ((*SIZE, "-c", "999999999999999M", "--allow-long-context"), "-c"),
    ((*SIZE, "-c", "nan"), "-c nan"),
    ((*SIZE, "-c", "0x10"), "-c 0x10"),
    ((*SIZE, "-c", "٣"), "-c"),
    ((*SIZE, "-c", "1M"), "-c 1M is 1,048,576 tokens; llama-3.1-8b ends at 131,072"),
    ((*SIZE, "-n", "0"), "-n is 0"),
    ((*SIZE, "-n", "-1"), "-n is -1"),
    ((*SIZE, "-n", "2.5"), "-n 2.5"),
    ((*SIZE, "-n", HUGE), "-n"),
    ((*SIZE, "--request", "0"), "--request"),
    ((*SIZE, "--tp", "0"), "--tp is 0"),
    ((*SIZE, "--tp", "3"), "--tp 3"),
    ((*SIZE, "--tp", HUGE), "--tp"),
    ((*SIZE, "--block-size", "0"), "--block-size"),
    ((*SIZE, "--block-size", HUGE), "--block-size"),
    ((*SIZE, "--weight-bytes", "80G"), "--weight-bytes 80G has two readings"),
    ((*SIZE, "--weight-bytes", "0"), "--weight-bytes"),
    ((*SIZE, "--weight-bytes", "-1GiB"), "--weight-bytes"),
    ((*SIZE, "--weight-bytes", "5 apples"), "--weight-bytes"),
    ((*SIZE, "--weights", "int3"), "int3"),
    ((*SIZE, "--weights", "bf16", "--weight-bytes", "1GiB"), "--weight-bytes"),
    ((*SIZE, "--kv-dtype", "fp9"), "fp9"),
    ((*SIZE, "--kv-dtype", ""), "dtype"),
    ((*SIZE, "--set", "x"), "--set x is not NAME=VALUE"),
    ((*SIZE, "--set", "x=1"), "--set x"),
    ((*SIZE, "--engine", "nope"), 'no engine "nope"'),
    ((*SIZE, "--color", "sometimes"), "--color sometimes"),
    ((*SIZE, "--layers", "32"), "MODEL llama-3.1-8b and --layers are two models"),
    ((*SIZE, "--group", "10*full:8x128"), "two models"),
    ((*SIZE, "--parameters", "8B"), "two models"),
    (("size", "--layers", "32"), "--kv-heads, --head-dim missing"),
    (("size", "--layers", "0", "--kv-heads", "8", "--head-dim", "128"), "--layers is 0"),
    (("size", "--layers", HUGE, "--kv-heads", "8", "--head-dim", "128"), "--layers"),
    (("size", "--layers", "1e3", "--kv-heads", "8", "--head-dim", "128"), "--layers 1e3"),
    (("size", "--group", "10*full:8"), "--group 10*full:8"),
    (("size", "--group", "10*round:8x128"), "round"),
    (("size", "--group", "10*full:8x128", "--layers", "3"), "--group and --layers"),
    (("size", "llama-3.1-8b,nope"), "nope"),
    (("size", "llama-3.1-8b,"), "MODEL"),
    (("size", "x" * 5000), "no model"),
    (("size", "a\nb"), "no model"),
    (("size", "\x1b[31mred"), "no model"),
    (("size", "../../etc/passwd"), "passwd"),
    ((*FIT, "--gpu-memory", "80G"), "--gpu-memory"),
    (("fit", "llama-3.1-8b", "--gpu-memory", "80G"),
     "--gpu-memory 80G has two readings: 80 GB = 74.51 GiB, or 80 GiB"),
    ((*FIT, "--gpus", "0"), "--gpus is 0"),
    ((*FIT, "--gpus", "8", "--tp", "3"), "--tp"),
    ((*FIT, "--utilization", "1.5"), "--utilization"),
    ((*FIT, "--utilization", "0"), "--utilization"),
    ((*FIT, "--utilization", "nan"), "--utilization"),
    ((*FIT, "--utilization", "190%"), "--utilization"),
    ((*FIT, "--solve", "everything"), "everything"),
    ((*FIT, "--reserve", "-1GiB"), "--reserve"),
    ((*FIT, "--price", "0"), "--price 0 is not a number above 0"),
    ((*FIT, "--price", "-2"), "--price -2"),
    ((*FIT, "--price", "$2.50"), "--price $2.50"),
    ((*FIT, "--price", "2.50EUR"), "--price 2.50EUR"),
    (("fit", "llama-3.1-8b", "--price", "2.50"), "--price needs a MODEL and a --gpu"),
    (("fit", "--gpu", "h100", "--price", "2.50"), "--price needs a MODEL and a --gpu"),
    (("fit", "llama-3.1-8b", "--gpu", ""), "--gpu"),
    (("fit", "llama-3.1-8b", "--gpu", "0xh100"), "--gpu"),
    (("timeline", "llama-3.1-8b", "--prompt", "0", "--output", "1"), "--prompt"),
    (("timeline", "llama-3.1-8b"), "--prompt"),
    (("tradeoff", "llama-3.1-8b"), "--tokens"),
    (("tradeoff", "llama-3.1-8b", "--tokens", "0"), "--tokens"),
    (("waste", "llama-3.1-8b"), "--request"),
    (("waste", "llama-3.1-8b", "--request", "9K", "--max-context", "4K"), "--max-context"),
    (("waste", "--slots", "36", "--waste-fraction", "1.5"), "--waste-fraction"),
    (("speed", "llama-3.1-8b"), "--gpu"),
    ((*OFFLOAD, "--bandwidth", "0"), "--bandwidth 0 has no unit"),
    ((*OFFLOAD, "--bandwidth", "0GB/s"), "--bandwidth 0GB/s is out of range"),
    ((*OFFLOAD, "--bandwidth", "-5GB/s"), "--bandwidth -5GB/s is not a rate"),
    ((*OFFLOAD, "--bandwidth", "25G"),
     "--bandwidth 25G has two readings: 25 GB/s, or 25 Gb/s = 3.13 GB/s"),
    ((*OFFLOAD, "--bandwidth", "25gb/s"), "--bandwidth 25gb/s has two readings"),
    ((*OFFLOAD, "--bandwidth", "nan"), "--bandwidth nan"),
    ((*OFFLOAD, "--bandwidth", HUGE + "GB/s"), "--bandwidth"),
    ((*OFFLOAD, "--bandwidth", "25GB/s", "--bandwidth-per", "gpu"), "--bandwidth-per is gpu"),
    ((*OFFLOAD, "--bandwidth-per", "rank"), "--bandwidth-per needs --bandwidth"),
    ((*OFFLOAD, "--weights", "int3"), "int3"),
    ((*OFFLOAD, "--set", "max_local_cpu_size=50GiB"), "max_local_cpu_size 50GiB is not a number"),
    ((*OFFLOAD, "--requests-per-second", HUGE[:19]), "is too large"),
    (("waste", "llama-3.1-8b", "--request", "9", "--seed", "1"), "--seed needs --trace"),
    (("waste", "llama-3.1-8b", "--request", "9", "--limit", "x"), "--limit needs --trace"),
    (("waste", "llama-3.1-8b", "--request", "9", "--skip-bad"), "--skip-bad needs --trace"),
    (("waste", "llama-3.1-8b", "--request", "9", "--gpus", "2"), "--gpus needs --gpu"),
    (("waste", "llama-3.1-8b", "--request", "9", "--weights", "int3"), "int3"),
    (("fit", "llama-3.1-8b", "--gpu", "24GB"), "--gpu 24GB is a size, not a name"),
    (("fit", "llama-3.1-8b", "--gpu", "h100", "-c", "max"), "-c max: name the tokens"),
    (("fit", "llama-3.1-8b", "--gpu", "h100", "--kv-offloading-size", "9"), "memory of the host"),
    ((*OFFLOAD, "--pool", "0GiB"), "--pool 0GiB is out of range"),
    ((*OFFLOAD, "--pool", "50G"), "--pool 50G has two readings"),
    ((*OFFLOAD, "--pool", "50GiB", "--tp", "2"), "--pool 50GiB over 2 ranks has two readings"),
    ((*OFFLOAD, "--pool", "50GiB", "--pool-per", "node"), "--pool-per is node"),
    ((*OFFLOAD, "--pool-per", "rank"), "--pool-per needs --pool"),
    ((*OFFLOAD, "--host-ram", "256GB"), "--host-ram needs --pool"),
    ((*OFFLOAD, "--hicache-size", "0"), "--set hicache_size 0"),
    ((*OFFLOAD, "--hicache-size", "40GB"), "--set hicache_size 40GB"),
    ((*OFFLOAD, "--hicache-size", "40", "--pool", "1GiB"), "two pools"),
    ((*OFFLOAD, "--hicache-size", "40", "--cache-ram", "8192"), "two pools"),
    ((*OFFLOAD, "--hicache-ratio", "2"), "--set hicache_ratio says no size"),
    ((*OFFLOAD, "--cache-ram", "8192", "--tp", "2"), "--set cache_ram: llama.cpp keeps it once"),
    ((*OFFLOAD, "--set", "hicache=40"), "no engine's host pool has a setting hicache"),
    ((*OFFLOAD, "--chunk-tokens", "0"), "--chunk-tokens is 0"),
    ((*OFFLOAD, "-c", "255", "--chunk-tokens", "256"), "--chunk-tokens 256 is more than -c 255"),
    ((*OFFLOAD, "-c", "4096", "--shared-prefix", "4096"), "--shared-prefix 4,096 leaves nothing"),
    ((*OFFLOAD, "--requests-per-second", "0"), "--requests-per-second 0"),
    ((*OFFLOAD, "--requests-per-second", "-1"), "--requests-per-second -1"),
    ((*OFFLOAD, "--tp", "3", "--gpu", "h100"), "--tp 3"),
    ((*OFFLOAD, "--gpu", "h1000"), "h1000"),
    (("offload",), "MODEL is missing"),
    (("gpus", "--min-memory", "80G"), "80G"),
    (("models", "nope"), "nope"),
    (("batch", "no-such-file"), "cannot read no-such-file"),
    (("batch", "."), "cannot read ."),
], ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "")  # fmt: skip
def test_it_is_named_in_one_line(kvcalc: Kvcalc, args: tuple[str, ...], said: str) -> None:
    done = kvcalc(*args, "--json")
    lines = done.stderr.splitlines()
    envelope = json.loads(done.stdout)

    assert done.returncode == 2, done.stderr
    assert lines[0].startswith("error: ")
    assert said in lines[0]
    assert len(lines) <= 2
    assert all(len(line) < 600 for line in lines)
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    assert (envelope["status"], envelope["data"]) == ("error", None)
    assert envelope["errors"][0]["message"] == lines[0].removeprefix("error: ")


def test_too_large_a_table_is_refused_before_it_is_computed(kvcalc: Kvcalc) -> None:
    many = ",".join(str(n) for n in range(1, 203))
    done = kvcalc(
        "fit", "llama-3.1-8b", "--gpu", "h100", "--engine", "none", "-c", many, "-n", many
    )

    assert done.returncode == 2
    assert done.stderr.startswith("error: 40,804 combinations")


@pytest.mark.parametrize(("line", "code"), [
    (b"{", "usage"),
    (b"[]", "usage"),
    (b"null", "usage"),
    (b'{"model": "gpt-2"}', "usage"),
    (b'{"command": "siz", "model": "gpt-2"}', "usage"),
    (b'{"command": "batch"}', "usage"),
    (b'{"command": "size", "model": "nope"}', "unknown_model"),
    (b'{"command": "size", "model": "gpt-2", "contxt": 5}', "usage"),
    (b'{"command": "size", "model": "gpt-2", "context": 0}', "usage"),
    (b'{"command": "size", "model": "gpt-2", "context": 1.5}', "usage"),
    (b'{"command": "size", "model": "gpt-2", "context": true}', "usage"),
    (b'{"command": "size", "model": "gpt-2", "context": {}}', "usage"),
    (b'{"command": "size", "model": "gpt-2", "context": NaN}', "usage"),
    (b'{"command": "size", "model": 5}', "usage"),
    (b'{"command": "size", "model": "\xff"}', "unreadable_input"),
    (b"[" * 100_000, "usage"),
    (b'{"command": "size", "model": "' + b"x" * 2_000_000 + b'"}', "usage"),
], ids=lambda value: value.decode("latin-1")[:40] if isinstance(value, bytes) else "")  # fmt: skip
def test_a_broken_batch_line_is_told_and_the_rest_goes_on(
    environment: dict[str, str], line: bytes, code: str
) -> None:
    good = b'{"command": "size", "model": "gpt-2"}'
    done = subprocess.run(
        [sys.executable, "-m", "kvcalc", "batch"], env=environment, capture_output=True,
        input=good + b"\n" + line + b"\n\n" + good + b"\n", check=False,
    )  # fmt: skip
    first, broken, last = map(json.loads, done.stdout.decode("utf-8").splitlines())

    assert (done.returncode, done.stderr) == (2, b"")
    assert (first["status"], last["status"]) == ("ok", "ok")
    assert (broken["status"], broken["exit_code"]) == ("error", 2)
    assert broken["errors"][0]["code"] == code
    assert broken["errors"][0]["message"].startswith("line 2: ")
