"""The command ``upquery``.

Exit codes: 0 ok, 1 failed, 2 usage. Every command has ``--json`` for machines.

Not here: what the commands do (`supervisor`, `demo`, `cli_views`).
"""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from load.__main__ import bench
from service.cli_audit import audit
from service.cli_token import token_app
from service.cli_views import URL, Remote, TokenOption, print_json, views_app
from service.cli_watch import watch_view
from service.cli_workload import workload_app
from service.demo.command import demo

if TYPE_CHECKING:
    from service.serving import Service

app = typer.Typer(
    name="upquery",
    help="SQL views answered from memory and kept right by your database's change stream, over HTTP/JSON.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(demo)
app.command()(audit)
views_app.command("watch")(watch_view)
app.add_typer(views_app, name="view")
app.add_typer(token_app, name="token")
app.add_typer(workload_app, name="workload")
app.add_typer(bench, name="bench")
errors = Console(stderr=True, highlight=False)
output = Console(highlight=False)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
ConfigOption = Annotated[Path | None, typer.Option("--config", "-c", help="The TOML file.", envvar="UPQUERY_CONFIG")]
USAGE = 2


def _default_config(path: Path | None, name: str = "upquery.toml") -> Path | None:
    """The file that was named, or the one that lies here."""
    here = Path(name)
    return path if path is not None or not here.exists() else here


class Role(StrEnum):
    """What kind of service runs."""

    STACK = "stack"
    GATEWAY = "gateway"


RoleOption = Annotated[
    Role, typer.Option("--role", help="stack: engine and API workers. gateway: in front of several stacks.")
]


@app.command()
def serve(config: ConfigOption = None, role: RoleOption = Role.STACK, as_json: JsonOption = False) -> None:
    """Serve the configured views, and those put over HTTP, until Ctrl-C."""
    from service.keeping import StartError
    from service.ports import Endpoints
    from service.serving import serve as run_service
    from service.settings.errors import SettingsError

    try:
        service = _service(role, config)
    except SettingsError as error:
        _fail(str(error), as_json=as_json, code=USAGE)

    def ready(endpoints: Endpoints) -> None:
        if as_json:
            print_json({"event": "ready", "http": endpoints.http, "admin": endpoints.admin, "pid": endpoints.pid})
        else:
            output.print(
                f"[bold green]upquery is ready.[/] Views: {endpoints.http}/v1/views/…  Admin: {endpoints.admin}",
                soft_wrap=True,
            )

    try:
        asyncio.run(run_service(service, ready))
    except StartError as error:
        _fail(str(error), as_json=as_json, code=error.exit_code)
    except KeyboardInterrupt:
        # Before the signal handlers were there.
        raise typer.Exit(1) from None


def _service(role: Role, config: Path | None) -> "Service":
    """What is to be served. Raises `SettingsError`."""
    from service.telemetry import configure_logging

    if role is Role.GATEWAY:
        from service.gateway_supervisor import GatewaySupervisor
        from service.settings.gateway import load_gateway_settings

        path = _default_config(config, "gateway.toml")
        gateway = load_gateway_settings(path)
        configure_logging(gateway.log, "supervisor")
        return GatewaySupervisor(gateway, path)
    from service.settings.load import load_settings
    from service.supervisor import Supervisor

    settings = load_settings(_default_config(config))
    configure_logging(settings.log, "supervisor")
    return Supervisor(settings)


@app.command()
def doctor(
    config: ConfigOption = None,
    fix: Annotated[bool, typer.Option("--fix", help="Run the fixes that only change what the log carries.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Look at the database, its change stream and the tables that the configured views read; say what to repair."""
    from service.cli_doctor import show
    from service.doctor import examine
    from service.settings.errors import SettingsError
    from service.settings.load import load_settings

    try:
        found = asyncio.run(examine(load_settings(_default_config(config)), fix=fix))
    except SettingsError as error:
        _fail(str(error), as_json=as_json, code=USAGE)
    show(found, as_json=as_json)
    raise typer.Exit(0 if found.healthy else 1)


@app.command()
def openapi(
    url: Annotated[str, typer.Option(help="The data plane of a running service.", envvar="UPQUERY_URL")] = URL,
    token: TokenOption = None,
) -> None:
    """Print the OpenAPI document with the registered views."""
    print_json(Remote(url, token).get("/openapi.json"))


def _fail(message: str, *, as_json: bool, code: int = 1) -> NoReturn:
    if as_json:
        print_json({"event": "failed", "message": message})
    else:
        errors.print("[bold red]upquery cannot start.[/]", escape(message), soft_wrap=True)
    raise typer.Exit(code)


if __name__ == "__main__":
    app()
