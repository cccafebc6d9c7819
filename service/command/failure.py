"""The error output of a command that cannot start, as text or JSON."""

from typing import NoReturn

import typer

from service.command.options import print_json


def fail(message: str, *, as_json: bool, code: int = 1) -> NoReturn:
    """Print the message and end the command."""
    if as_json:
        print_json({"event": "failed", "message": message})
    else:
        # Imported here: Rich is slow to import, and a service that starts does not need it.
        from rich.console import Console
        from rich.markup import escape

        errors = Console(stderr=True, highlight=False)
        errors.print("[bold red]upquery cannot start.[/]", escape(message), soft_wrap=True)
    raise typer.Exit(code)
