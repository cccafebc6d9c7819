"""``upquery token …``: tokens for a service's file of them."""

import json
import os
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from service.command.options import USAGE, JsonOption, print_json
from service.settings.errors import SettingsError
from service.web.auth.tokens import entry_text, new_token, read_tokens
from service.web.principal import Right

token_app = typer.Typer(help="Tokens for [auth] tokens_file.", no_args_is_help=True)
errors = Console(stderr=True, highlight=False)


@token_app.callback()
def tokens() -> None:
    """Tokens for [auth] tokens_file."""


@token_app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Whose it is; shown to operators.")],
    right: Annotated[list[Right] | None, typer.Option(help="What it is good for. Default: read.")] = None,
    view: Annotated[list[str] | None, typer.Option(help="A view that it may read, with * and ?. Default: all.")] = None,
    claim: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="For :claims.NAME in views; several make a list.")
    ] = None,
    expires: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"], help="Until when it is good, in UTC.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Add it to this file; a running service takes it up.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token and print it, once: the file has only its hash."""
    token = new_token()
    entry = entry_text(name, token, _options(right or [], view or [], claim or [], expires))
    try:
        _add(file, entry)
    except (SettingsError, OSError) as error:
        errors.print("[bold red]Error:[/]", escape(str(error)), soft_wrap=True)
        raise typer.Exit(USAGE) from None
    if as_json:
        print_json({"token": token, "entry": entry})
        return
    typer.echo(token)
    if file is None:
        errors.print("Add this to \\[auth] tokens_file:\n\n" + escape(entry), soft_wrap=True)


def _options(
    rights: Sequence[Right], views: Sequence[str], claims: Sequence[str], expires: datetime | None
) -> dict[str, str]:
    """Keys of the entry, with their TOML; a JSON array of strings, and a string, are TOML."""
    options = {}
    if rights:
        options["rights"] = json.dumps([str(right) for right in rights])
    if views:
        options["views"] = json.dumps(list(views))
    if claims:
        pairs = (f"{json.dumps(key)} = {json.dumps(value)}" for key, value in _claims(claims).items())
        options["claims"] = f"{{{', '.join(pairs)}}}"
    if expires is not None:
        options["expires"] = f"{expires:%Y-%m-%dT%H:%M:%SZ}"
    return options


def _claims(given: Sequence[str]) -> dict[str, str | list[str]]:
    found: dict[str, list[str]] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"{pair!r} is not of the form name=value.")
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _check(beside: Path, file: Path | None) -> None:
    try:
        read_tokens(beside)
    except SettingsError as error:
        raise SettingsError(str(error).replace(str(beside), str(file or "(none)"))) from None


def _add(file: Path | None, entry: str) -> None:
    """Checks the entry, together with what the file has, and adds it. A service never sees half of it."""
    known = file.read_text(encoding="utf-8").rstrip() if file is not None and file.exists() else ""
    directory = Path(tempfile.gettempdir()) if file is None else file.absolute().parent
    number, beside = tempfile.mkstemp(prefix=".tokens-", dir=directory)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as written:
            written.write(f"{known}\n\n{entry}" if known else entry)
        _check(Path(beside), file)
        if file is not None:
            if known:
                os.chmod(beside, file.stat().st_mode & 0o777)
            os.replace(beside, file)
    finally:
        Path(beside).unlink(missing_ok=True)
