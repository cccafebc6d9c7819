"""``upquery token …``: bearer tokens for `[auth] tokens_file`."""

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

token_app = typer.Typer(no_args_is_help=True)
errors = Console(stderr=True, highlight=False)


@token_app.callback()
def tokens() -> None:
    """Manage the tokens of \\[auth] tokens_file."""


@token_app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Owner of the token, shown to operators.")],
    right: Annotated[list[Right] | None, typer.Option(help="A right of the token. Repeatable. Default: read.")] = None,
    view: Annotated[
        list[str] | None,
        typer.Option(help="A view that the token may read; * and ? match. Repeatable. Default: all views."),
    ] = None,
    claim: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Value of :claims.NAME in views. A repeated name becomes a list."),
    ] = None,
    expires: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"], help="Expiry of the token, in UTC.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Add the token to this file; a running service reloads it.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a token and print it. It is shown only once: the file stores its hash."""
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
    """Keys of the entry with their values as TOML. JSON strings and arrays of strings are valid TOML."""
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
            raise typer.BadParameter(f"Claim {pair!r} must have the form NAME=VALUE.")
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _check(beside: Path, file: Path | None) -> None:
    try:
        read_tokens(beside)
    except SettingsError as error:
        raise SettingsError(str(error).replace(str(beside), str(file or "(none)"))) from None


def _add(file: Path | None, entry: str) -> None:
    """Validate the file with the new entry, then replace it atomically."""
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
