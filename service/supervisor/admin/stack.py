"""The admin port of a stack, put together: whom it asks, and what it answers.

The supervisor imports this, and all that it needs, beside the start of its children.
"""

import socket

from service.protocol.admin_operations import Control
from service.protocol.control import ControlClient
from service.protocol.run_directory import RunPaths
from service.protocol.shares import shards_of
from service.settings.stack import Settings
from service.supervisor.admin.app import Children, admin_app
from service.supervisor.admin.engines import Engines
from service.supervisor.admin.port import AdminPort


def stack_admin_port(settings: Settings, run: RunPaths, children: Children, listener: socket.socket) -> AdminPort:
    """Build the port; `AdminPort.open` starts it."""
    clients = [ControlClient(run.of_shard(shard).control_socket) for shard in shards_of(settings)]
    control: Control = clients[0] if len(clients) == 1 else Engines(clients)
    return AdminPort(admin_app(control, children), settings.http, settings.auth, listener)
