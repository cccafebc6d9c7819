"""``upquery migrate check``: prints the effects of a migration on views, before it is run on the database.

Exit codes: 0, no view breaks or changes its tier; 1, one does; 2, the file fails on the copy, or cannot be checked.

Not here: the check (`service.migration.check`).
"""

import asyncio
import logging
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.command.options import USAGE, ConfigOption, JsonOption, TokenOption, default_config, print_json
from service.migration.reads import ReadRates

if TYPE_CHECKING:
    from service.migration.check import Checked
    from service.migration.prediction import Prediction

migrate_app = typer.Typer(help="Predict the effects of migrations on views.", no_args_is_help=True)
output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

_COLOURS = {"stays": "green", "replanned": "yellow", "tier changes": "red", "breaks": "bold red"}


@migrate_app.callback()
def migrate() -> None:
    """Predict the effects of migrations on views."""


@migrate_app.command("check")
def check_migration(
    file: Annotated[Path, typer.Argument(help="SQL file of the migration; - reads standard input.")],
    config: ConfigOption = None,
    on_copy: Annotated[
        str | None,
        typer.Option(
            "--on-copy",
            help="URL of a copy of the schema, which is changed. Default: a copy in an embedded PostgreSQL.",
            envvar="UPQUERY_ON_COPY",
        ),
    ] = None,
    role: Annotated[
        str | None, typer.Option(help="Role that runs the migration. Default: the owner of the views' tables.")
    ] = None,
    admin: Annotated[
        str | None,
        typer.Option(
            "--admin", help="URL of a running service's admin port, for reads per second.", envvar="UPQUERY_ADMIN_URL"
        ),
    ] = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a migration on a copy of the database's schema, and print which views stay, are replanned, change their tier
    or break. The database itself is only read."""
    if on_copy is not None and role is not None:
        raise typer.BadParameter("with --on-copy the role is that of its URL", param_hint="--role")
    reads = None if admin is None else ReadRates(admin, token)
    checked = _checked(file, config, on_copy, role, reads, as_json=as_json)
    if reads is not None and reads.problem is not None:
        checked.notes.append(reads.problem)
    rates = None if reads is None else reads.per_second()
    show(checked, rates, as_json=as_json)
    raise typer.Exit(0 if checked.prediction.is_harmless else 1)


def _checked(
    file: Path, config: Path | None, on_copy: str | None, role: str | None, reads: ReadRates | None, *, as_json: bool
) -> "Checked":
    # Imported here: the help of the commands does not need them.
    import structlog

    from service.engine.upstream.results import UpstreamError
    from service.engine.views.tables import TableRefusedError
    from service.migration.check import CheckRefused, Options, check, definitions
    from service.migration.execution import MigrationFailed
    from service.migration.schema_copy import CopyFailed
    from service.migration.script import ScriptError
    from service.settings.errors import SettingsError
    from service.settings.stack import load_settings

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        text = typer.get_text_stream("stdin").read() if str(file) == "-" else file.read_text(encoding="utf-8-sig")
        settings = load_settings(default_config(config))
        views = definitions(settings)
        if reads is not None:
            known = {view.name for view in views}
            views += [view for view in reads.views() if view.name not in known]
        return asyncio.run(check(settings, text, views, Options(on_copy, role)))
    except (OSError, UnicodeDecodeError) as error:
        _fail(f"{file} cannot be read: {error}.", as_json=as_json)
    except (SettingsError, ScriptError, CheckRefused, MigrationFailed, CopyFailed, UpstreamError) as error:
        _fail(str(error), as_json=as_json)
    except TableRefusedError as error:
        _fail(str(error), as_json=as_json)


def show(checked: "Checked", rates: dict[str, float] | None, *, as_json: bool) -> None:
    """Print all effects; `rates`: reads per second by view."""
    prediction = checked.prediction
    if as_json:
        views = [
            asdict(view) | ({} if rates is None else {"reads_per_second": rates.get(view.view)})
            for view in prediction.views
        ]
        tables = [asdict(table) for table in prediction.tables]
        print_json({"harmless": prediction.is_harmless, "views": views, "tables": tables, "notes": checked.notes})
        return
    for note in checked.notes:
        output.print(f"[yellow]note[/]  {escape(note)}", soft_wrap=True)
    if prediction.tables:
        output.print(_tables(prediction))
    if prediction.views:
        output.print(_views(prediction, rates))
    output.print(_summary(prediction), soft_wrap=True)


def _tables(prediction: "Prediction") -> Table:
    table = Table("table", "change and remedy")
    for each in prediction.tables:
        table.add_row(escape(each.table), escape(each.reason) + (f"\n[bold]{escape(each.fix)}[/]" if each.fix else ""))
    return table


def _views(prediction: "Prediction", rates: dict[str, float] | None) -> Table:
    table = Table("view", "effect", "tier", *(() if rates is None else ("reads/s",)), "reason")
    for view in prediction.views:
        tier = view.tier or "-"
        if view.tier_after != view.tier:
            tier += f" → {view.tier_after or '-'}"
        rate = () if rates is None else (f"{rates[view.view]:,.1f}" if view.view in rates else "",)
        effect = f"[{_COLOURS[view.effect]}]{view.effect}[/]"
        table.add_row(escape(view.view), effect, tier, *rate, escape(view.reason or ""))
    return table


def _summary(prediction: "Prediction") -> str:
    counts = {effect: sum(view.effect == effect for view in prediction.views) for effect in _COLOURS}
    text = ", ".join(f"{count} {effect}" for effect, count in counts.items() if count) or "No views"
    colour = "green" if prediction.is_harmless else "red"
    return f"[bold {colour}]{text}.[/]"


def _fail(message: str, *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"detail": message})
    else:
        errors.print("[bold red]Error:[/]", escape(message), soft_wrap=True)
    raise typer.Exit(USAGE)
