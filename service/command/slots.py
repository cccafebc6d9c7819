"""``upquery slots …``: PostgreSQL's replication slots of Upquery's services.

Not here: the statements (`service.engine.databases.postgres.slots`).
"""

import asyncio
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.command.options import USAGE, ConfigOption, JsonOption, default_config, print_json

if TYPE_CHECKING:
    from service.engine.databases.postgres.slots import ReplicationSlot
    from service.settings.stack import Settings

slots_app = typer.Typer(invoke_without_command=True)
output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


@slots_app.callback()
def slots(context: typer.Context, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List or drop the replication slots of Upquery in the configured PostgreSQL database."""
    if context.invoked_subcommand is None:
        _list(config, as_json=as_json)


@slots_app.command("drop")
def drop(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of the slots. Default: all that are not in use.")
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host", help="Host of a removed service with this configuration, whose slot is dropped, if any."
        ),
    ] = None,
    wait_s: Annotated[
        float, typer.Option("--wait", help="With --host: maximum seconds to wait for slots that are in use.")
    ] = 60.0,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop slots that are not in use, such as those of services that were killed or removed."""
    from service.engine.databases.postgres.slots import drop_slots, drop_slots_of
    from service.engine.upstream.results import UpstreamError

    if names and hosts:
        _end("Give names or --host, not both.", as_json=as_json, code=USAGE)
    settings, url = _database(config, as_json=as_json, required=not hosts)
    timeout_s = settings.upstream.connect_timeout_s
    try:
        if hosts:
            of_hosts = _names(settings, url, hosts)
            dropped = asyncio.run(drop_slots_of(url, timeout_s, of_hosts, wait_s)) if url else []
        else:
            dropped = asyncio.run(drop_slots(url, timeout_s, names or ()))
    except UpstreamError as error:
        _end(str(error), as_json=as_json)
    if as_json:
        print_json({"dropped": dropped})
    for name in () if as_json else dropped:
        output.print(f"dropped {name}")


def _names(settings: "Settings", url: str, hosts: list[str]) -> list[str]:
    """Names of the slots of services with these settings on these hosts."""
    from cdc.postgres.slot import slot_name

    return [slot_name(host, settings.state.directory, url) for host in hosts]


def _list(config: ConfigOption, *, as_json: bool) -> None:
    from service.engine.databases.postgres.slots import list_slots
    from service.engine.upstream.results import UpstreamError

    settings, url = _database(config, as_json=as_json)
    try:
        found = asyncio.run(list_slots(url, settings.upstream.connect_timeout_s))
    except UpstreamError as error:
        _end(str(error), as_json=as_json)
    if as_json:
        print_json({"slots": [asdict(slot) for slot in found]})
    else:
        output.print(_table(found))


def _database(config: ConfigOption, *, as_json: bool, required: bool = True) -> "tuple[Settings, str]":
    """The settings, and the URL of the stream's login; "" for another database than PostgreSQL, unless that is
    `required`."""
    from service.engine.databases.streams import replication_url
    from service.settings.database_url import is_mysql
    from service.settings.errors import SettingsError
    from service.settings.stack import load_settings

    try:
        settings = load_settings(default_config(config))
        if is_mysql(settings.upstream.url):
            if not required:
                return settings, ""
            raise SettingsError("The configured database has no replication slots: only PostgreSQL has.")
        return settings, replication_url(settings)
    except SettingsError as error:
        _end(str(error), as_json=as_json, code=USAGE)


def _end(message: str, *, as_json: bool, code: int = 1) -> NoReturn:
    if as_json:
        print_json({"error": message})
    else:
        errors.print("[bold red]Error:[/]", escape(message), soft_wrap=True)
    raise typer.Exit(code)


def _table(found: "list[ReplicationSlot]") -> Table:
    table = Table("slot", "in use by process", "unused for", "kind", "log", "bytes held")
    for slot in found:
        user = "" if slot.active_pid is None else str(slot.active_pid)
        kind = "temporary" if slot.temporary else "permanent"
        unused = "" if slot.unused_s is None else str(timedelta(seconds=slot.unused_s))
        table.add_row(slot.name, user, unused, kind, slot.wal_status, f"{slot.held_bytes:,}")
    return table
