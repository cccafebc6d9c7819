"""``upquery serve``: a service in the foreground, until Ctrl-C.

Not here: the services (`service.supervisor.stack`, `service.supervisor.gateway`).
"""

import asyncio
import faulthandler
import gc
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.command.failure import fail
from service.command.options import USAGE, ConfigOption, JsonOption, default_config, print_json

if TYPE_CHECKING:
    from service.supervisor.foreground import Service
    from service.supervisor.ports import Endpoints


class ServiceRole(StrEnum):
    """Kinds of services that `upquery serve` runs."""

    STACK = "stack"
    GATEWAY = "gateway"


RoleOption = Annotated[
    ServiceRole,
    typer.Option(
        "--role", help="stack: engine and API workers. gateway: routes requests to the stacks of several shards."
    ),
]


def serve(config: ConfigOption = None, role: RoleOption = ServiceRole.STACK, as_json: JsonOption = False) -> None:
    """Serve the configured views and those registered over HTTP until Ctrl-C."""
    # Imports create no garbage, and collecting it takes a tenth of the start.
    gc.disable()
    # Only this user may read the files written: view definitions and the keys that were read.
    os.umask(0o077)
    # Imported here: the help of the commands does not need them.
    from service.protocol.child import SHOW
    from service.settings.errors import SettingsError
    from service.supervisor.children import StartError
    from service.supervisor.foreground import serve as run_service

    faulthandler.register(SHOW)
    try:
        service = _service(role, config)
    except SettingsError as error:
        fail(str(error), as_json=as_json, code=USAGE)

    def ready(endpoints: "Endpoints") -> None:
        # Objects that exist now live as long as the process.
        gc.freeze()
        gc.enable()
        if as_json:
            print_json({"event": "ready", "http": endpoints.http, "admin": endpoints.admin, "pid": endpoints.pid})
        else:
            _show(endpoints)

    try:
        asyncio.run(run_service(service, ready))
    except StartError as error:
        fail(str(error), as_json=as_json, code=error.exit_code)
    except KeyboardInterrupt:
        # Ctrl-C arrived before the signal handlers were installed.
        raise typer.Exit(1) from None


def _service(role: ServiceRole, config: Path | None) -> "Service":
    """Build the service of a role; each role imports other modules. Raises `SettingsError`."""
    from service.ground.logs import configure_logging

    if role is ServiceRole.GATEWAY:
        from service.settings.gateway import load_gateway_settings
        from service.supervisor.gateway import GatewaySupervisor

        path = default_config(config, "gateway.toml")
        gateway = load_gateway_settings(path)
        configure_logging(gateway.log, "supervisor")
        return GatewaySupervisor(gateway, path)
    from service.settings.stack import load_settings
    from service.supervisor.stack import Supervisor

    settings = load_settings(default_config(config))
    configure_logging(settings.log, "supervisor")
    return Supervisor(settings)


def _show(endpoints: "Endpoints") -> None:
    # Imported here: Rich is slow to import, and --json does not need it.
    from rich.console import Console

    Console(highlight=False).print(
        f"[bold green]upquery is ready.[/] Views: {endpoints.http}/v1/views/…  Admin: {endpoints.admin}",
        soft_wrap=True,
    )
