"""From argv to an exit code: 0 yes, 1 no, 2 could not answer, 70 a bug, 130 interrupted."""

from __future__ import annotations

import os
from typing import Any

from kvcalc import __version__
from kvcalc.cli import output, settings, spellings
from kvcalc.cli.options import COMMON, OPTIONS, Option
from kvcalc.cli.spec import COMMANDS, Spec, spec_of
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.results.base import Result
from kvcalc.core.units import shown

YES, NO, ERROR, BUG, INTERRUPTED = 0, 1, 2, 70, 130
#: Answered whatever else stands on the line.
_ASKS = frozenset({"-h", "--help", "--version"})


def run(argv: list[str]) -> int:
    """Answer one command line and return its exit code."""
    if argv[:1] == ["help"]:
        argv = [*argv[1:2], "--help"]
    command, words = _split(argv)
    try:
        if command is None and (_ASKS & set(argv) or not wants_json(argv)):
            return _overview(argv)
        return _command(_known(command), words)
    except KvcalcError as error:
        return _failed(command if command in COMMANDS else None, argv, error)
    except KeyboardInterrupt:
        raise
    except Exception as bug:  # noqa: BLE001 - the last catch: a traceback and 70
        return _bug(command if command in COMMANDS else None, argv, bug)


def _split(argv: list[str]) -> tuple[str | None, list[str]]:
    """The command, and the other words; common options may stand before the command."""
    flags = {f: not OPTIONS[n].is_flag for n in COMMON for f in OPTIONS[n].flags}
    i = 0
    while i < len(argv) and argv[i].startswith("-") and argv[i] != "--":
        i += 2 if flags.get(argv[i], False) else 1
    if i >= len(argv) or argv[i] == "--":
        return None, argv
    return argv[i], argv[:i] + argv[i + 1 :]


def _overview(argv: list[str]) -> int:
    """Without a command: the version, or help, which for nothing at all goes to stderr."""
    if "--version" in argv:
        output.write_stdout(f"kvcalc {__version__}\n")
        return YES
    from kvcalc.cli.help import overview  # noqa: PLC0415 - it loads every command

    if {"-h", "--help"} & set(argv):
        output.write_stdout(overview(output.help_width()) + "\n")
        return YES
    if argv:
        _known(None)
    output.write_stderr(overview() + "\n")
    return ERROR


def _known(command: str | None) -> str:
    if command is None:
        hint = "all: kvcalc --help; a launch line: kvcalc fit --gpu NAME -- vllm serve …"
        raise KvcalcError("usage", "no command", hint)
    if command in COMMANDS:
        return command
    close = nearest(command, list(COMMANDS))
    near = f"nearest: {', '.join(close)}; " if close else ""
    raise KvcalcError("usage", f'no command "{shown(command)}"', f"{near}all: kvcalc --help")


def _command(command: str, words: list[str]) -> int:
    spec = spec_of(command)
    line: list[str] | None = None
    if command == "fit" and "--" in words:
        at = words.index("--")
        words, line = words[:at], words[at + 1 :]
    options = parse(spec, words)
    if options is None:
        return YES
    if line is not None:
        from kvcalc.cli.launch import launched  # noqa: PLC0415 - pasted lines alone

        options = launched(options, line)
    options, origins = settings.filled(options, spec)
    try:
        out = output.Output(options)
        runner = getattr(__import__(f"kvcalc.cli.{command}", fromlist=["run"]), "run", None)
        if runner is not None:
            return int(runner(options, out))
        return deliver(answered(spec, options), out)
    except KvcalcError as error:
        raise settings.attributed(error, origins) from None


def parse(spec: Spec, words: list[str]) -> dict[str, Any] | None:
    """The options given on the command line; None if it was help, already printed.

    Raises:
        KvcalcError: "usage", in one line.
    """
    all_options = spec.all_options()
    own = frozenset(f for option in all_options for f in option.flags) | {"-h", "--help"}
    flags = frozenset(f for o in all_options if o.is_flag for f in o.flags) | {"-h", "--help"}
    words = spellings.normalise(words, own, flags)
    if asked := _ASKS.intersection(_options_of(words)):
        from kvcalc.cli.help import command_help  # noqa: PLC0415

        version = asked == {"--version"}
        said = f"kvcalc {__version__}" if version else command_help(spec, output.help_width())
        output.write_stdout(said + "\n")
        return None
    import typer  # noqa: PLC0415 - --version and help of kvcalc must not wait for it

    from kvcalc.cli.build import build  # noqa: PLC0415

    try:
        values = build(spec).main(words, prog_name=f"kvcalc {spec.name}", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        raise _usage(error, spec) from None
    if isinstance(values, int):  # Typer's answer to Ctrl-C
        raise KeyboardInterrupt
    options = {option.key: option for option in all_options}
    return {
        key: options[key].split(value) if isinstance(value, list) and key in options else value
        for key, value in sorted(values.items(), key=lambda item: _place(item[0], options, words))
    }


def _place(key: str, options: dict[str, Option], words: list[str]) -> int:
    """Where an option was first typed: the rows of a what-if table follow that order."""
    if key not in options:
        return -1
    flags = options[key].flags
    typed = (i for i, w in enumerate(words) if w.partition("=")[0] in flags or w[:2] in flags)
    return next(typed, len(words))


def _usage(error: Any, spec: Spec) -> KvcalcError:
    """Typer's usage error in our one line, with the nearest options."""
    message, near = str(error.format_message()).rstrip("."), ""
    name = getattr(error, "option_name", None)
    if name and "such option" in message:
        message = f"kvcalc {spec.name} has no option {name}"
        known = sorted(f for o in spec.all_options() for f in o.flags if f.startswith("--"))
        close = nearest(name, known)
        near = f"nearest: {', '.join(close)}; " if close else ""
        if name == "--prompt":  # also --isl and --input-len
            near = "-c TOKENS is prompt and output together; "
    return KvcalcError("usage", shown(message, 200), f"{near}all: kvcalc {spec.name} --help")


def answered(spec: Spec, options: dict[str, Any]) -> Result:
    """The result of a command whose answer is its Python function's."""
    from kvcalc.answer import answer  # noqa: PLC0415

    return answer(spec.name, prepared(options), lists=list_keys(spec))


def prepared(options: dict[str, Any]) -> dict[str, Any]:
    """Command-line options as keywords of the Python function."""
    from kvcalc.answer import pairs  # noqa: PLC0415

    keywords = dict(options)
    if "set" in keywords:
        keywords["set"] = pairs(keywords["set"])
    argument = keywords.pop("argument", None)
    if argument is not None:
        names = [part.strip() for part in argument.split(",")]
        keywords["model"] = names if len(names) > 1 and not os.path.exists(argument) else argument
        keywords = {"model": keywords.pop("model"), **keywords}
    return keywords


def list_keys(spec: Spec) -> frozenset[str]:
    """Keywords whose several values stay one list in this command."""
    return frozenset(
        option.key
        for option in spec.all_options()
        if option.repeat in {"list", "pairs"} or option.name in spec.lists
    )


def deliver(result: Result, out: output.Output) -> int:
    """Write the answer and return its exit code."""
    code = YES if result.yes else NO
    warnings = getattr(result, "warnings", ())
    wrapped: dict[str, Any] = {}
    if out.format == "json":
        from kvcalc.report.data import envelope  # noqa: PLC0415

        wrapped = envelope(
            result.command,
            version=__version__,
            data=result.to_dict(),
            exit_code=code,
            warnings=[w._asdict() for w in warnings],
        )
    out.write(out.render(result, wrapped))
    if not out.quiet and out.format not in {"text", "plain", "md"}:
        _warn(warnings)
    return code


def _warn(warnings: Any) -> None:
    import sys  # noqa: PLC0415

    for warning in warnings:
        sys.stderr.write(f"warning: {warning.message}\n")


def _failed(command: str | None, argv: list[str], error: KvcalcError) -> int:
    output.complain(error)
    if wants_json(argv):
        from kvcalc.report.data import dumps, envelope  # noqa: PLC0415

        wrapped = envelope(command, version=__version__, exit_code=ERROR, error=error)
        _write_failure(argv, dumps(wrapped) + "\n", error)
    return ERROR


def _write_failure(argv: list[str], content: str, error: KvcalcError) -> None:
    """The envelope of a failure: to stdout, or to the file the answer was meant for."""
    path = _value_after(_options_of(argv), _file_flags(argv))
    try:
        if path in {None, "-"} or error.code == "output_failed":
            output.write_stdout(content, plain_text=False)
        else:
            output.write_file(path or "", content)
    except KvcalcError as second:
        if second.message != error.message:
            output.complain(second)


def wants_json(argv: list[str]) -> bool:
    """Whether JSON was asked for by option, variable or configuration, even if parsing failed."""
    words = _options_of(argv)
    named = _value_after(words, ("-f", "--format"))
    if "--json" in words or named is not None:
        return "--json" in words or named == "json"
    if (word := os.environ.get("KVCALC_FORMAT")) is not None:
        return word == "json"
    if os.environ.get("KVCALC_JSON", "").lower() in {"1", "true", "yes", "on"}:
        return True
    configured = _configured_format()
    if configured is not None:
        return configured == "json"
    path = _value_after(words, _file_flags(argv))
    return path is not None and path.lower().endswith(".json")


def _options_of(argv: list[str]) -> list[str]:
    return argv[: argv.index("--")] if "--" in argv else argv


def _file_flags(argv: list[str]) -> tuple[str, ...]:
    """The flags of the output file: in `timeline`, --output counts tokens."""
    command, _ = _split(argv)
    options = spec_of(command).all_options() if command in COMMANDS else (OPTIONS["output_file"],)
    return next(option.flags for option in options if option.key == "output_file")


def _value_after(words: list[str], names: tuple[str, ...]) -> str | None:
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else (words[i + 1] if i + 1 < len(words) else None)
        if word[:2] in names and len(word) > 2 and not word.startswith("--"):
            return word[2:]
    return None


def _configured_format() -> str | None:
    try:
        found = settings.fill({}, Spec("", "", ()))
    except KvcalcError:
        return None
    return "json" if found.get("json") else found.get("format")


def _bug(command: str | None, argv: list[str], bug: Exception) -> int:
    import sys  # noqa: PLC0415
    import traceback  # noqa: PLC0415

    traceback.print_exception(bug, file=sys.stderr)
    if wants_json(argv):
        from kvcalc.report.data import dumps, envelope  # noqa: PLC0415

        error = KvcalcError("internal", f"{type(bug).__name__}: {shown(bug, 200)}", "please report")
        wrapped = envelope(command, version=__version__, exit_code=BUG, error=error)
        output.write_stdout(dumps(wrapped) + "\n", plain_text=False)
    return BUG
