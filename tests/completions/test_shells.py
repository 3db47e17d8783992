"""The scripts in the real bash, zsh and fish: the same words, the same offers."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kvcalc.catalog.locate import data_dir

pytestmark = pytest.mark.shells
COMPLETIONS = Path(data_dir("completions"))
Complete = Callable[[str], list[str]]

#: Calls the completion function as readline would, words cut at = : and @.
BASH = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_kvcalc
printf '%s\\n' ${COMPREPLY[@]+"${COMPREPLY[@]}"}
"""
#: Types the line in an interactive zsh and prints what its completion system adds.
ZSH = r"""
zmodload zsh/zpty || exit 9
zpty child zsh -f -i
zpty -w child 'PROMPT= RPROMPT= PS2=; unsetopt prompt_cr prompt_sp; stty -echo'
if [[ $2 == source ]]; then
    zpty -w child "autoload -Uz compinit; compinit -D -u; source $3/_kvcalc"
else
    zpty -w child "fpath=($3 \$fpath); autoload -Uz compinit; compinit -D -u"
fi
zpty -w child 'bindkey "^I" complete-word
zstyle ":completion:*" insert-tab false
mark() { print -r -- @@ }
compprefuncs=(mark)
comppostfuncs=(mark)
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
    local -a hits
    builtin compadd -O hits "$@"
    (( $#hits )) && print -rl -- "= "$IPREFIX$^hits
    builtin compadd "$@"
}
print re""ady'
zpty -r child out '*ready*' || exit 3
zpty -w -n child "$1"$'\t'
zpty -r child out '*@@*@@*' || exit 4
print -r -- "${out//$'\r'/}"
zpty -d child
"""


def bash(line: str) -> list[str]:
    """Command for bash."""
    words = [part for word in line.split(" ") for part in _pieces(word)]
    return ["bash", "--norc", "-c", BASH, "bash", str(COMPLETIONS / "kvcalc.bash"), *words]


def _pieces(word: str) -> list[str]:
    return [part for part in re.split(r"([=:@]+)", word) if part] or [""]


def zsh(line: str, how: str = "fpath") -> list[str]:
    """Command for zsh."""
    return ["zsh", "-f", "-c", ZSH, "zsh", line, how, str(COMPLETIONS)]


def fish(line: str) -> list[str]:
    """Command for fish."""
    script = f"source {COMPLETIONS}/kvcalc.fish; complete -C '{line}'"
    return ["fish", "--no-config", "-c", script]


def offers(
    command: list[str], environment: dict[str, str], work: Path, *, bare: bool = True
) -> list[str]:
    """The words a shell offers, sorted; after = only the value."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    done = subprocess.run(
        command, env=environment, cwd=work, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    lines = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    if command[0] == "zsh":
        lines = [line[2:] for line in lines if line.startswith("= ")]
    return sorted({re.sub(r"^--[^=]*=", "", line) if bare else line for line in lines} - {""})


@pytest.fixture(params=["bash", "zsh", "fish"])
def complete(request: pytest.FixtureRequest, environment: dict[str, str], work: Path) -> Complete:
    """What a shell offers for a line."""
    command = {"bash": bash, "zsh": zsh, "fish": fish}[request.param]
    return lambda line: offers(command(line), environment, work)


@pytest.mark.parametrize(("line", "expected"), [
    ("kvcalc si", ["simulate", "size"]),
    ("kvcalc -f json si", ["simulate", "size"]),
    ("kvcalc size llama-3.1", ["llama-3.1-405b", "llama-3.1-70b", "llama-3.1-8b"]),
    ("kvcalc size --max-model-len 32k llama-3.1-4", ["llama-3.1-405b"]),
    ("kvcalc size -tp 2 llama-3.1-4", ["llama-3.1-405b"]),
    ("kvcalc size gpt-2,llama-3.1-4", ["gpt-2,llama-3.1-405b"]),
    ("kvcalc size meta-llama/llama-3.3", ["meta-llama/llama-3.3-70b-instruct"]),
    ("kvcalc size --kv-dtype q8", ["q8_0"]),
    ("kvcalc size --kv-dtype=q8", ["q8_0"]),
    ("kvcalc size --kv-dtype bf16,q8", ["bf16,q8_0"]),
    ("kvcalc size --kv-dtype=bf16,q8", ["bf16,q8_0"]),
    ("kvcalc size --kv-cache-dtype q8", ["q8_0"]),
    ("kvcalc size --kv-dtype float8_e5", ["float8_e5m2"]),
    ("kvcalc size --weights aw", ["awq"]),
    ("kvcalc size --weights awq_m", ["awq_marlin"]),
    ("kvcalc fit --gpu 409", ["4090"]),
    ("kvcalc fit --gpu aut", ["auto"]),
    ("kvcalc fit --gpu h200-n", ["h200-nvl"]),
    ("kvcalc fit --gpu h100,h200-n", ["h100,h200-nvl"]),
    ("kvcalc fit --gpu 8xh200-n", ["8xh200-nvl"]),
    ("kvcalc fit --gpu=h100,8xh200-n", ["h100,8xh200-nvl"]),
    ("kvcalc fit --solve ut", ["utilization"]),
    ("kvcalc waste --policy pa", ["paged"]),
    ("kvcalc waste --policy naive,pa", ["naive,paged"]),
    ("kvcalc size --color a", ["always", "auto"]),
    ("kvcalc size -f js", ["json", "jsonl"]),
    ("kvcalc --format js", ["json", "jsonl"]),
    ("kvcalc fit gpt-2 --util", ["--utilization"]),
    ("kvcalc fit gpt-2 --kv-p", ["--kv-pool", "--kv-pool-tokens"]),
    ("kvcalc fit gpt-2 --gpu h100 --gpu-m", ["--gpu-memory"]),
    ("kvcalc size gpt-2 --json --js", []),
    ("kvcalc size gpt-2 --request 5 --reques", ["--request", "--requests"]),
    ("kvcalc size gpt-2 --util", []),
    ("kvcalc models sh", ["show"]),
    ("kvcalc models show gpt-oss", ["gpt-oss-120b", "gpt-oss-20b"]),
    ("kvcalc models gpt-oss", ["gpt-oss-120b", "gpt-oss-20b"]),
    ("kvcalc models gpt-2 gpt-oss", []),
    ("kvcalc models add gpt-oss", []),
    ("kvcalc gpus show h200-n", ["h200-nvl"]),
    ("kvcalc dtypes show q8", ["q8_0"]),
    ("kvcalc schema tim", ["timeline"]),
    ("kvcalc completions fi", ["fish"]),
    ("kvcalc size --context ", []),
    ("kvcalc size --max-model-len ", []),
    ("kvcalc size --model gpt-oss-1", ["gpt-oss-120b"]),
    ("kvcalc timeline gpt-2 --output ", []),
    ("kvcalc --vers", ["--version"]),
])  # fmt: skip
def test_it_offers(complete: Complete, line: str, expected: list[str]) -> None:
    assert complete(line) == expected


def test_all_commands_are_offered(complete: Complete) -> None:
    found = complete("kvcalc ")

    assert {"size", "fit", "models", "gpus", "completions"} <= set(found)


def test_every_gpu_is_offered(complete: Complete) -> None:
    found = complete("kvcalc fit --gpu ")

    assert {"h100", "h100-sxm", "4090", "rtx-4090", "a100-80", "mi300x"} <= set(found)


def test_files_are_offered_where_files_are_wanted(complete: Complete, work: Path) -> None:
    (work / "answer.json").touch()
    (work / "config.json").touch()

    assert complete("kvcalc size gpt-2 -o ans") == ["answer.json"]
    assert complete("kvcalc size gpt-2 --output ans") == ["answer.json"]
    assert complete("kvcalc batch ans") == ["answer.json"]
    assert complete("kvcalc models add ans") == ["answer.json"]
    assert [Path(p).name for p in complete("kvcalc size ./conf")] == ["config.json"]


def test_the_users_own_presets_are_offered(
    complete: Complete, environment: dict[str, str], tmp_path: Path
) -> None:
    for folder, name in (("a/models", "my-model"), ("b/models", "my-other"), ("b/gpus", "my-gpu")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / f"{name}.toml").touch()
    app = Path(environment["XDG_CONFIG_HOME"]) / "kvcalc" / "models"
    app.mkdir(parents=True)
    (app / "my-third.toml").touch()
    environment["KVCALC_PRESETS"] = f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/none"

    assert complete("kvcalc size my-") == ["my-model", "my-other", "my-third"]
    assert complete("kvcalc fit --gpu my-") == ["my-gpu"]


def test_case_does_not_matter(complete: Complete) -> None:
    assert complete("kvcalc size Llama-3.1-4") == ["llama-3.1-405b"]


def test_zsh_sourced_after_compinit(environment: dict[str, str], work: Path) -> None:
    command = zsh("kvcalc size --kv-dtype q8", "source")

    assert offers(command, environment, work) == ["q8_0"]


def test_zsh_sees_the_compdef_line() -> None:
    """compinit looks at the first line alone."""
    assert (COMPLETIONS / "_kvcalc").read_text("utf-8").startswith("#compdef kvcalc\n")


def test_bash_where_words_are_not_cut_at_equals(environment: dict[str, str], work: Path) -> None:
    """With = taken out of COMP_WORDBREAKS the whole word is replaced, so the whole is offered."""
    script = str(COMPLETIONS / "kvcalc.bash")
    command = ["bash", "--norc", "-c", BASH, "bash", script, "kvcalc", "fit", "--gpu=h200-n"]

    assert offers(command, environment, work, bare=False) == ["--gpu=h200-nvl"]


def test_bash_with_unset_variables_forbidden(environment: dict[str, str], work: Path) -> None:
    command = bash("kvcalc size llama-3.1-4")
    command[3] = f"set -u; unset HOME; {command[3]}"

    assert offers(command, environment, work) == ["llama-3.1-405b"]


def test_bash_leaves_the_shell_as_it_was(environment: dict[str, str], work: Path) -> None:
    command = bash("kvcalc size llama-3.1-4")
    checked = "[[ $before == $(shopt; set -o) ]] && echo unchanged"
    command[3] = f"before=$(shopt; set -o)\n{command[3]}\n{checked}"

    assert "unchanged" in offers(command, environment, work)
