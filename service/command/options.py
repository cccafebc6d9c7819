"""Options that several commands share, and their JSON output.

*Invariants*: imports no slow module, since every command imports this one.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

USAGE = 2

AdminOption = Annotated[
    str, typer.Option("--admin", help="URL of the service's admin port.", envvar="UPQUERY_ADMIN_URL")
]
UrlOption = Annotated[str, typer.Option("--url", help="URL of the service's data port.", envvar="UPQUERY_URL")]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", help="Token for a service with \\[auth]. Prefer the environment variable.", envvar="UPQUERY_TOKEN"
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file (TOML).", envvar="UPQUERY_CONFIG")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
NameArgument = Annotated[str, typer.Argument(help="Name of the view.")]
ADMIN_URL = "http://127.0.0.1:8081"
URL = "http://127.0.0.1:8080"


def print_json(value: object) -> None:
    """Print one line of JSON on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def default_config(path: Path | None, name: str = "upquery.toml") -> Path | None:
    """Return `path`, or the file `name` of the current directory if it exists."""
    here = Path(name)
    return path if path is not None or not here.exists() else here
