"""Options that several commands have, and what all of them print for machines.

*Invariants*: imports nothing that takes long; every command needs it.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

USAGE = 2

AdminOption = Annotated[str, typer.Option("--admin", help="The admin port of the service.", envvar="UPQUERY_ADMIN_URL")]
UrlOption = Annotated[str, typer.Option("--url", help="The data plane of the service.", envvar="UPQUERY_URL")]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", help="For a service with [auth]; better in the environment.", envvar="UPQUERY_TOKEN"),
]
ConfigOption = Annotated[Path | None, typer.Option("--config", "-c", help="The TOML file.", envvar="UPQUERY_CONFIG")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
NameArgument = Annotated[str, typer.Argument(help="The view's name.")]
ADMIN_URL = "http://127.0.0.1:8081"
URL = "http://127.0.0.1:8080"


def print_json(value: object) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def default_config(path: Path | None, name: str = "upquery.toml") -> Path | None:
    """The configuration file that was named, or the one in the current directory."""
    here = Path(name)
    return path if path is not None or not here.exists() else here
