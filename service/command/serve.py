"""``upquery serve``: a service in the foreground, until Ctrl-C.

Not here: what is served (`service.supervisor.stack`, `service.supervisor.gateway`).
"""

import asyncio
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


class Role(StrEnum):
    """Kinds of services that `upquery serve` runs."""

    STACK = "stack"
    GATEWAY = "gateway"


RoleOption = Annotated[
    Role, typer.Option("--role", help="stack: engine and API workers. gateway: in front of several stacks.")
]


def serve(config: ConfigOption = None, role: RoleOption = Role.STACK, as_json: JsonOption = False) -> None:
    """Serve the configured views, and those put over HTTP, until Ctrl-C."""
    # Modules are being imported: no garbage comes of it, and looking for some takes a tenth of the start.
    gc.disable()
    # What is written, views and which keys were read, may be read by this user only.
    os.umask(0o077)
    # Only when it is run: the help of all commands needs none of it.
    from service.settings.errors import SettingsError
    from service.supervisor.children import StartError
    from service.supervisor.foreground import serve as run_service

    try:
        service = _service(role, config)
    except SettingsError as error:
        fail(str(error), as_json=as_json, code=USAGE)

    def ready(endpoints: "Endpoints") -> None:
        # What there is now stays.
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
        # Before the signal handlers were there.
        raise typer.Exit(1) from None


def _service(role: Role, config: Path | None) -> "Service":
    """Build the service of a role; each role imports other modules. Raises `SettingsError`."""
    from service.ground.logs import configure_logging

    if role is Role.GATEWAY:
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
    # Only for people: it takes long to import.
    from rich.console import Console

    Console(highlight=False).print(
        f"[bold green]upquery is ready.[/] Views: {endpoints.http}/v1/views/…  Admin: {endpoints.admin}",
        soft_wrap=True,
    )
