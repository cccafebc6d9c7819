"""The chart's pods run here: the rendered pod as a local process, over a real PostgreSQL."""

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from service.demo.command import free_port
from tests.fixtures.postgres import Database
from tests.fixtures.service import until
from tests.helm.charts import render
from tests.helm.pods import LIMIT_S, Cluster, Pod

pytestmark = pytest.mark.postgres


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
    release = render(values)
    made = Pod(Cluster(release, {"shop-db": {"url": database.url}}), release.engines, "demo-upquery-0")
    yield made
    made.discard()


def test_the_rendered_pod_runs_and_goes_as_it_should(pod: Pod, database: Database) -> None:
    pod.start()
    until(lambda: pod.probe("startup"), LIMIT_S)
    until(lambda: pod.probe("readiness"), LIMIT_S)
    assert pod.probe("liveness")

    tokens = pod.cluster.secrets["demo-upquery-tokens"]
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
    assert pod.stop() == 0, pod.log.read_text()
    reader.join(LIMIT_S)
    # Every answer that was begun is whole and right; the end is a connection that was closed, or not made.
    assert set(map(str, reader.answers)) == {str((200, [{"id": 7, "title": "SEVEN"}]))}
    assert isinstance(reader.end, httpx.ConnectError | httpx.ReadError | httpx.RemoteProtocolError)
    assert "incomplete" not in str(reader.end)
