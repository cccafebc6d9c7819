"""What the chart tells Kubernetes to run, run here: the rendered pod as a local process, over a real PostgreSQL.

Files, environment, arguments, ports and probes are those of the rendered objects. What a node would do is done by
`Pod`: volumes are folders below one root, and the address to bind to is loopback.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.demo.command import free_port
from tests.fixtures.postgres import Database
from tests.fixtures.service import command, until
from tests.helm.charts import Object, Rendered, render
from tests.tidy.sources import ROOT

pytestmark = pytest.mark.postgres

NAME = "demo-upquery-0"
LIMIT_S = 120.0


class Pod:
    """A rendered pod as a process. `secrets` are those of the namespace that the chart does not make."""

    def __init__(self, release: Rendered, secrets: dict[str, dict[str, str]]) -> None:
        self.release = release
        self.container = release.container
        # Short: sockets are below it.
        self.root = Path(tempfile.mkdtemp(prefix="pod-"))
        self._secrets = secrets | {s["metadata"]["name"]: s["stringData"] for s in release.of_kind("Secret")}
        self._volumes = {volume["name"]: volume for volume in release.pod["volumes"]}
        self.process: subprocess.Popen[bytes] | None = None
        self.log = self.root / "log"

    def start(self) -> None:
        """Mounts what is mounted, and starts the container's process as the image's entry point does."""
        for mount in self.container["volumeMounts"]:
            self._fill(self.root / mount["mountPath"][1:], self._volumes[mount["name"]])
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command(*(self._here(word) for word in self.container["args"])),
                env=self._environment(),
                cwd=self.root / "var/lib/upquery",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _fill(self, folder: Path, volume: Object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        files: dict[str, str] = {}
        if "configMap" in volume:
            files = self.release.only("ConfigMap")["data"]
        elif "secret" in volume:
            known = self._secrets[volume["secret"]["secretName"]]
            files = {item["path"]: known[item["key"]] for item in volume["secret"]["items"]}
        else:
            assert "emptyDir" in volume
        for name, text in files.items():
            (folder / name).write_text(self._here(text))

    def _here(self, text: str) -> str:
        """With the paths that are mounted as they are here."""
        mounted = "|".join(re.escape(mount["mountPath"]) for mount in self.container["volumeMounts"])
        return re.sub(rf"(?<![\w/])({mounted})\b", rf"{self.root}\1", text)

    def _environment(self) -> dict[str, str]:
        """The container's, and what makes it run here: nothing else of this process's environment."""
        here = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "UPQUERY_HTTP__HOST": "127.0.0.1"}
        return here | {each["name"]: self._value(each) for each in self.container["env"]}

    def _value(self, variable: Object) -> str:
        if "value" in variable:
            return self._here(variable["value"])
        match variable["valueFrom"]:
            case {"fieldRef": {"fieldPath": "metadata.name"}}:
                return NAME
            case {"secretKeyRef": {"name": name, "key": key}}:
                return self._secrets[name][key]
        raise AssertionError(variable)

    def url(self, port: str) -> str:
        """Of a port by its name."""
        (number,) = (each["containerPort"] for each in self.container["ports"] if each["name"] == port)
        return f"http://127.0.0.1:{number}"

    def probe(self, name: str) -> bool:
        """What the kubelet finds."""
        asked = self.container[f"{name}Probe"]["httpGet"]
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return httpx.get(self.url(asked["port"]) + asked["path"], timeout=10).is_success
        except httpx.TransportError:
            return False

    def discard(self) -> None:
        """Ends it, and removes what it left."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(LIMIT_S)
        shutil.rmtree(self.root, ignore_errors=True)


class Reader(threading.Thread):
    """A client that reads all the time, until nobody listens any more."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(daemon=True)
        self._client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
        self.answers: list[tuple[int, Any]] = []
        #: Why it ended.
        self.end: Exception | None = None

    def run(self) -> None:
        """Reads."""
        with self._client:
            while self.end is None:
                try:
                    response = self._client.get("/v1/views/story", params={"id": 7})
                    self.answers.append((response.status_code, response.json().get("rows")))
                except httpx.TransportError as error:
                    self.end = error


@pytest.fixture
def pod(database: Database) -> Iterator[Pod]:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text)", "INSERT INTO stories VALUES (7, 'seven'), (8, 'eight')"
    )
    values = {
        "upstream": {"secret": {"name": "shop-db"}},
        "memory": "64Mi",
        "http": {"port": free_port()},
        "admin": {"port": free_port()},
        "views": {"story": {"sql": "SELECT id, title\nFROM stories\nWHERE id = :id"}},
        "settings": {"cdc": {"set_replica_identity": True}},
        "accessLog": {"enabled": True},
    }
    made = Pod(render(values), {"shop-db": {"url": database.url}})
    yield made
    made.discard()


def test_the_rendered_pod_runs_and_goes_as_it_should(pod: Pod, database: Database) -> None:
    pod.start()
    until(lambda: pod.probe("startup"), LIMIT_S)
    until(lambda: pod.probe("readiness"), LIMIT_S)
    assert pod.probe("liveness")

    tokens = pod.release.only("Secret")["stringData"]
    reading = {"Authorization": f"Bearer {tokens['read-token']}"}
    managing = {"Authorization": f"Bearer {tokens['admin-token']}"}
    story = pod.url("http") + "/v1/views/story?id=7"
    assert httpx.get(story).status_code == 401
    assert httpx.get(story, headers=reading, timeout=LIMIT_S).json()["rows"] == [{"id": 7, "title": "seven"}]
    catalog = pod.url("admin") + "/v1/catalog/views"
    assert httpx.get(catalog, headers=reading).status_code == 403
    (view,) = httpx.get(catalog, headers=managing, timeout=LIMIT_S).json()["views"]
    assert (view["name"], view["origin"]) == ("story", "config")
    assert httpx.get(pod.url("admin") + "/metrics").status_code == 401

    database.execute("UPDATE stories SET title = 'SEVEN' WHERE id = 7")
    until(lambda: "SEVEN" in httpx.get(story, headers=reading, timeout=LIMIT_S).text, LIMIT_S)

    _goes_while_it_is_read(pod, tokens["read-token"])
    # Nothing of the run is left in memory; what was read is in the access log.
    assert list((pod.root / "run/upquery").iterdir()) == []
    assert list((pod.root / "var/log/upquery").glob("access-*.jsonl"))


def _goes_while_it_is_read(pod: Pod, token: str) -> None:
    reader = Reader(pod.url("http"), token)
    reader.start()
    until(lambda: len(reader.answers) > 20, LIMIT_S)
    assert pod.process is not None
    pod.process.send_signal(signal.SIGTERM)
    drain = pod.release.container["lifecycle"]["preStop"]["sleep"]["seconds"]
    grace = pod.release.pod["terminationGracePeriodSeconds"] - drain
    assert pod.process.wait(grace) == 0, pod.log.read_text()
    reader.join(LIMIT_S)
    # Every answer that was begun is whole and right; the end is a connection that was closed, or not made.
    assert set(map(str, reader.answers)) == {str((200, [{"id": 7, "title": "SEVEN"}]))}
    assert isinstance(reader.end, httpx.ConnectError | httpx.ReadError | httpx.RemoteProtocolError)
    assert "incomplete" not in str(reader.end)
