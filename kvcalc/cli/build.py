"""A command's declaration to a Typer command, and parsed words back to options."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from kvcalc.cli.spec import Spec


def build(spec: Spec) -> TyperCommand:
    """The Typer command of one declaration; calling it returns the options that were given."""
    parameters, seen = [], set()
    if spec.argument[0]:
        kind: Any = list[str] | None if spec.rest else str | None
        argument = typer.Argument(metavar=spec.argument[0], show_default=False)
        parameters.append(_parameter("argument", Annotated[kind, argument], None))
    for option in spec.all_options():
        assert option.key not in seen, option.key  # noqa: S101 - two options of one key is a bug
        seen.add(option.key)
        info = typer.Option(*option.flags, help=option.help, metavar=option.metavar or None)
        kind = bool if option.is_flag else (list[str] if option.repeat else str) | None
        parameters.append(_parameter(option.key, Annotated[kind, info], None))

    def given(**values: Any) -> dict[str, Any]:
        return {name: value for name, value in values.items() if value not in (None, False, [])}

    given.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    given.__annotations__ = {p.name: p.annotation for p in parameters}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    settings = {"help_option_names": ["-h", "--help"]}
    app.command(spec.name, cls=_command_class(spec), context_settings=settings)(given)
    command = typer.main.get_command(app)
    assert isinstance(command, TyperCommand)  # noqa: S101 - one command gives no group
    return command


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _command_class(spec: Spec) -> type[TyperCommand]:
    class Command(TyperCommand):
        def get_help(self, ctx: Any) -> str:  # noqa: ARG002
            from kvcalc.cli.help import command_help  # noqa: PLC0415 - only where it is shown

            return command_help(spec)

    return Command
