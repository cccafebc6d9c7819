"""``python -m service.demo.golden_openapi`` prints the OpenAPI document of a service with the demo's views.

The document comes from a running service, over the demo's tables without their data. ``make openapi`` keeps it as
``api_schemas/openapi.json``.
"""

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import httpx
import psycopg

from service.demo.command import free_port
from service.demo.loading import create_tables
from service.demo.postgres_server import EmbeddedPostgres
from service.demo.service_process import ServiceConfig, ServiceProcess


def golden_openapi() -> str:
    """The document, printed so that a change of it is a readable difference."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="upquery-openapi-")))
        # As root the database server runs under another account, which must get to its own directory.
        directory.chmod(0o711)
        server = EmbeddedPostgres(directory / "postgres")
        stack.callback(server.stop)
        server.start()
        with psycopg.connect(server.url, autocommit=True) as connection:
            create_tables(connection)
        service = ServiceProcess(directory / "service", ServiceConfig(server.url, free_port(), free_port()))
        stack.callback(service.stop)
        service.start()
        document = httpx.get(f"{service.url}/openapi.json", timeout=10).raise_for_status().json()
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(golden_openapi())
