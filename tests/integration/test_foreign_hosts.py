"""A page of the web whose name was resolved to this machine: no port of an unguarded service answers it."""

import json
import socket
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, running_gateway, running_service

pytestmark = pytest.mark.postgres

VIEW = {"sql": "SELECT usename FROM pg_catalog.pg_user"}


def test_no_port_answers_to_a_foreign_name(database: Database, tmp_path: Path) -> None:
    with (
        running_service(tmp_path / "pod", database.url) as pod,
        running_gateway(tmp_path / "gateway", [[pod]]) as gateway,
    ):
        for port in (pod.http, pod.admin, gateway.http, gateway.admin):
            for host, origin in (("evil.example:8080", "http://evil.example:8080"), ("evil.example", "null")):
                headers = {"host": host, "origin": origin}
                for method, path in (("PUT", "/v1/catalog/views/v"), ("GET", "/v1/views/v"), ("GET", "/livez")):
                    body = VIEW if method == "PUT" else None
                    refused = HTTP.request(method, f"{port}{path}", headers=headers, json=body)
                    assert (refused.status_code, refused.json()["code"]) == (421, "host_refused")
        for port in (pod.http, gateway.http):
            # As the browser connects: by the name, to this machine.
            url = port.replace("http", "ws", 1).replace("127.0.0.1", "evil.example") + "/v1/subscribe"
            connected = socket.create_connection(("127.0.0.1", int(port.rsplit(":", 1)[1])))
            with pytest.raises(InvalidStatus) as closed, connect(url, proxy=None, sock=connected):
                pass
            assert json.loads(closed.value.response.body)["code"] == "host_refused"
        assert HTTP.get(f"{pod.http.replace('127.0.0.1', 'localhost')}/openapi.json").status_code == 200
