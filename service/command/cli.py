"""The command ``upquery``.

Exit codes: 0 ok, 1 failed, 2 usage. Every command has ``--json`` for machines.

A command's module is imported when it runs, so that `upquery serve` starts without the other commands' imports.

Not here: what the commands do (`serve`, `views`, `demo`).
"""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

#: Commands and groups of commands in the order of the help: their module, and the function or group in it.
COMMANDS = {
    "demo": ("service.demo.command", "demo"),
    "audit": ("service.command.audit", "audit"),
    "serve": ("service.command.serve", "serve"),
    "doctor": ("service.command.doctor", "doctor"),
    "slots": ("service.command.slots", "slots_app"),
    "openapi": ("service.command.openapi", "openapi"),
    "view": ("service.command.views", "views_app"),
    "token": ("service.command.token", "token_app"),
    "workload": ("service.command.workload", "workload_app"),
    "migrate": ("service.migration.command", "migrate_app"),
    "bench": ("load.__main__", "bench"),
}


class _Commands(TyperGroup):
    """Finds commands in `COMMANDS`."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        return _command(cmd_name) if cmd_name in COMMANDS else None


def _command(name: str) -> Any:
    module, attribute = COMMANDS[name]
    found = getattr(import_module(module), attribute)
    alone = typer.Typer()
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name)(found)
    return get_group(alone).commands[name]


app = typer.Typer(
    cls=_Commands,
    name="upquery",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
def upquery() -> None:
    """Serve SQL views from memory over HTTP/JSON, maintained incrementally from the database's change stream."""


if __name__ == "__main__":
    app()
