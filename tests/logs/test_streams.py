"""What a log may be as a file: packed, piped, of other encodings; and what is none."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvcalc.core.errors import KvcalcError
from kvcalc.logs.reader import read_log
from kvcalc.logs.scan import LONGEST_LINE

if TYPE_CHECKING:
    from tests.logs.conftest import Read

DATA = Path(__file__).parents[1] / "data" / "logs"
VLLM = (DATA / "vllm-0.12.0-01.log").read_bytes()
TOKENS = 460_688
RANDOM = random.Random(1)  # noqa: S311 - noise, no secret


def tokens(read: Read, raw: bytes) -> float:
    """The pool's tokens in these bytes."""
    fact = read(raw=raw).last("kv_tokens")
    assert fact is not None
    return fact.value


def refusal(read: Read, raw: bytes) -> str:
    """The message with which these bytes are refused."""
    with pytest.raises(KvcalcError) as told:
        read(raw=raw)
    assert told.value.code == "unreadable_input"
    assert "\n" not in told.value.message
    return told.value.message


def test_gzip_is_unpacked_by_its_content(read: Read) -> None:
    packed = gzip.compress(VLLM)

    assert tokens(read, packed) == TOKENS
    assert tokens(read, packed + gzip.compress(b"another member\n")) == TOKENS
    assert tokens(read, packed + b"\0" * 512) == TOKENS


def test_a_gzip_file_that_is_cut_gives_what_it_holds(read: Read) -> None:
    raw = VLLM + "".join(f"INFO {RANDOM.random()}\n" for _ in range(9000)).encode()
    packed = gzip.compress(raw)

    assert tokens(read, packed[: len(packed) * 2 // 3]) == TOKENS


def test_utf_16_as_powershell_writes_it(read: Read) -> None:
    text = VLLM.decode()

    assert tokens(read, text.encode("utf-16")) == TOKENS
    assert tokens(read, b"\xfe\xff" + text.encode("utf-16-be")) == TOKENS


def test_a_byte_order_mark_and_bytes_of_other_encodings_do_not_matter(read: Read) -> None:
    assert tokens(read, b"\xef\xbb\xbf" + VLLM) == TOKENS
    assert tokens(read, b"2 d\xe9c. d\xe9marrage\n" + VLLM) == TOKENS


def test_line_numbers_are_those_of_an_editor(read: Read) -> None:
    """Progress bars end their lines with returns, which no editor counts."""
    raw = b"first\nshard 1\rshard 2\rshard 3\rINFO GPU KV cache size: 7 tokens\r\nlast\n"
    fact = read(raw=raw).last("kv_tokens")

    assert fact is not None
    assert (fact.value, fact.line) == (7, 2)


def test_a_log_without_a_line_end_at_its_end(read: Read) -> None:
    assert tokens(read, b"GPU KV cache size: 7 tokens") == 7


@pytest.mark.parametrize("raw", [
    bytes(5000), RANDOM.randbytes(200_000), b"GGUF\x03" + bytes(range(256)) * 50,
    b"\x7fELF" + bytes(300), "GPU KV cache size: 7 tokens\n".encode("utf-32-le") * 9,
], ids=["zeros", "random", "gguf", "elf", "utf-32"])  # fmt: skip
def test_binary_data_is_no_log(read: Read, raw: bytes) -> None:
    assert "binary" in refusal(read, raw)


def test_text_that_is_no_log(read: Read) -> None:
    assert "no start-up line" in refusal(read, b"a,b\n1,2\n" * 1000)
    assert "no start-up line" in refusal(read, b"")
    assert "gzip" in refusal(read, b"\x1f\x8b" + b"no gzip" * 20)


def test_an_endless_line_is_no_log(read: Read) -> None:
    assert "a line of more than 8 MiB" in refusal(read, b"x" * (LONGEST_LINE + 2**21))
    assert "a line of more than 8 MiB" in refusal(read, gzip.compress(b"x" * (10 * 2**21)))


def test_a_long_line_does_not_hide_those_around_it(read: Read) -> None:
    """A picture in base64 in a request log: 3 MiB in one line."""
    long = b"INFO " + b"QUJD" * 800_000 + b"\n"

    assert tokens(read, VLLM + long) == TOKENS
    assert tokens(read, long + VLLM) == TOKENS


def test_two_gigabytes_are_no_start_up_log(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with path.open("wb") as file:
        file.write(VLLM)
        file.truncate(2 * 10**9)  # sparse: no disk is used

    with pytest.raises(KvcalcError) as told:
        read_log(str(path))
    assert told.value.code == "unreadable_input"
    assert "1.86 GiB is no start-up log" in told.value.message.replace("\u00a0", " ")


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "is a folder"), (tmp_path / "none.log", "No such file"),
                        (tmp_path / "a\0b", "not a readable file")):  # fmt: skip
        with pytest.raises(KvcalcError) as told:
            read_log(str(path))
        assert told.value.code == "unreadable_input"
        assert words in told.value.message


def run(path: str, raw: bytes = b"") -> list[str]:
    """Engine, most memory in MiB and starts, as a fresh interpreter reads the log."""
    done = subprocess.run(
        [sys.executable, "-c", _READ, path], input=raw, capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    return done.stdout.decode().split()


#: Reads a log, prints its engine, the most memory it took (MiB; as Linux tells it) and its starts.
_READ = """
import sys
from kvcalc.logs.reader import read_log
log = read_log(sys.argv[1])
try:
    text = open("/proc/self/status").read()
    most = int(text.partition("VmHWM:")[2].split()[0]) // 1024
except OSError:
    most = 0
print(log.engine, most, log.starts)
"""


def test_standard_input_is_read_as_it_comes() -> None:
    assert run("-", VLLM)[0] == "vllm"
    assert run("-", gzip.compress(VLLM))[0] == "vllm"


@pytest.mark.parametrize("kind", ["serving", "restarts", "one line"])
def test_memory_does_not_grow_with_the_log(tmp_path: Path, kind: str) -> None:
    """30 MB of each; kvcalc promises 60 MiB for 100 MB."""
    path = tmp_path / "server.log"
    served = b'INFO:     192.0.2.7:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    with path.open("wb") as file:
        if kind == "serving":
            file.write(VLLM + served * (30_000_000 // len(served)))
        elif kind == "restarts":
            file.write(VLLM * (30_000_000 // len(VLLM)))
        else:
            line = b"INFO GPU KV cache size: 460,688 tokens\n"
            file.write(line * (30_000_000 // len(line)))
    engine, mib, starts = run(str(path))

    assert engine == "vllm"
    assert int(mib) < 60
    assert (int(starts) > 1000) == (kind == "restarts")


def test_reading_logs_needs_the_standard_library_alone() -> None:
    script = "import sys; import kvcalc.logs.reader, kvcalc.launch.parse; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    loaded = done.stdout.split()
    rooms = {n.split(".")[1] for n in loaded if n.startswith("kvcalc.")}

    assert rooms == {"core", "logs", "launch"}
    assert not {"typer", "rich", "pydantic", "tomli"} & set(loaded)


def test_a_log_cannot_command_the_terminal(read: Read) -> None:
    """Escape sequences, and characters that turn the text around, in what is shown."""
    evil = "\x1b]0;owned\x07\u202e\x9b31m"
    log = read(
        f"INFO non-default args: {{'model_tag': 'a/{evil}b', 'max_model_len': 4096}}",
        f"INFO vLLM API server version 0.12.0{evil}",
        f"ggml: failed to allocate CUDA0 buffer of size 7 {evil}",
    )

    said = [log.model, log.version, *(r.message for r in log.refusals), *map(str, log.settings)]
    assert len(log.refusals) == 1
    assert all(text is not None and text.isprintable() for text in said)
