"""A rendered release with shards and a gateway, run here over a real PostgreSQL, while it is read and written to.

Two shards with two workers each and the gateway are processes of their own, as the chart says (`pods`). A shard is
killed; then all pods are replaced, each StatefulSet's and then the Deployment's, as their controllers do it; then
there are three shards.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from service.demo.command import free_port
from tests.fixtures.debezium import debezium_of_postgres
from tests.fixtures.kafka import KafkaBroker
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, until
from tests.helm.charts import Object, Rendered, render
from tests.helm.pods import LIMIT_S, Cluster, Pod
from tests.helm.traffic import ITEMS, PAIRS, TABLE, VIEWS, Reader, Service, Writer

pytestmark = pytest.mark.postgres

SHARDS = 2
MORE_SHARDS = 3
#: What stands for a pod's name in the gateway's file, and for its address here.
NAMES = "demo-upquery-{shard}-{replica}.demo-upquery-headless"
ADDRESSES = "127.77.{replica}.1{shard}"


def address(shard: int) -> str:
    return ADDRESSES.format(shard=shard, replica=0)


@dataclass(slots=True)
class Running:
    """A release that runs. *State*: its pods as they are now, and all that there were."""

    cluster: Cluster
    shards: list[Pod] = field(default_factory=list)
    gateway: Pod | None = None
    pods: list[Pod] = field(default_factory=list)

    @property
    def release(self) -> Rendered:
        return self.cluster.release

    def engine(self, shard: int) -> Pod:
        """A new pod of a shard."""
        owner = self.release.of_kind("StatefulSet")[shard]
        return self._made(owner, f"{owner['metadata']['name']}-0", address(shard))

    def front(self, number: int) -> Pod:
        """A new pod of the gateway."""
        return self._made(self.release.only("Deployment"), f"gateway-{number}", f"127.77.77.{number}")

    def audit(self, shard: int) -> Pod:
        """A pod of the CronJob, as if it were time."""
        job = self.release.of_kind("CronJob")[shard]["spec"]["jobTemplate"]
        job["spec"]["template"]["metadata"]["annotations"] = {"batch.kubernetes.io/job-completion-index": "0"}
        return self._made(job, "audit", "127.0.0.1")

    def _made(self, owner: Object, name: str, at: str) -> Pod:
        hosts = {NAMES.format(shard=shard, replica=0): address(shard) for shard in range(MORE_SHARDS)}
        pod = Pod(self.cluster, owner, name, at, hosts | {NAMES: ADDRESSES})
        self.pods.append(pod)
        pod.start()
        return pod

    def service(self) -> Service:
        """Return the service's address, with a token for reading."""
        assert self.gateway is not None
        return Service(self.gateway.url("http"), self.token("read"))

    def token(self, which: str) -> str:
        """A token that the chart has made."""
        return self.cluster.secrets["demo-upquery-tokens"][f"{which}-token"]


def values(**more: Object) -> Object:
    return {
        "upstream": {"secret": {"name": "shop-db"}},
        "shards": SHARDS,
        "workers": 2,
        "memory": "64Mi",
        "subscriptionMemory": "16Mi",
        "http": {"port": free_port()},
        "admin": {"port": free_port()},
        "views": VIEWS,
        "settings": {"cdc": {"set_replica_identity": True}},
        "gateway": {"settings": {"gateway": {"probe_s": 0.2, "move_s": 1}}},
        "audit": {"enabled": True},
        "drain": {"sleepSeconds": 1},
        "persistence": {"enabled": True},
        **more,
    }


@contextmanager
def installed(database: Database, claims: Path, **more: Object) -> Iterator[Running]:
    """The release, for the length of a block. The database has its table."""
    release = render(values(**more))
    made = Running(Cluster(release, {"shop-db": {"url": database.url}}, claims))
    try:
        made.shards = [made.engine(shard) for shard in range(SHARDS)]
        made.gateway = made.front(1)
        for pod in (*made.shards, made.gateway):
            until(lambda pod=pod: pod.probe("startup") and pod.probe("readiness"), LIMIT_S)
        yield made
    finally:
        for pod in made.pods:
            pod.discard()


@pytest.fixture
def running(database: Database, tmp_path: Path) -> Iterator[Running]:
    database.execute(*TABLE)
    with installed(database, tmp_path) as made:
        yield made


@pytest.fixture
def running_over_kafka(
    database: Database, kafka_broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> Iterator[Running]:
    """Its changes come from Debezium's topics, rows of one transaction from several partitions."""
    database.execute(*TABLE, "ALTER TABLE items REPLICA IDENTITY FULL")
    kafka_broker.create_topics({f"{topic_prefix}.public.items": 2, f"{topic_prefix}.transaction": 1})
    connector = debezium_of_postgres(tmp_path / "debezium", kafka_broker, database, topic_prefix)
    kafka = {"bootstrapServers": kafka_broker.bootstrap, "topicPrefix": topic_prefix}
    try:
        connector.start()
        with installed(database, tmp_path, cdc={"source": "kafka"}, kafka=kafka) as made:
            yield made
    finally:
        connector.kill()


@contextmanager
def traffic(service: Service, database: Database) -> Iterator[list[Reader]]:
    """One who writes and two who read, for the length of a block; whatever was wrong is raised at its end."""
    writer = Writer(database.url)
    readers = [Reader(service, writer, fresh=fresh) for fresh in (True, False)]
    with ExitStack() as stack:
        for client in (writer, *readers):
            stack.callback(client.end, LIMIT_S)
            client.start()
        yield readers


@pytest.mark.kafka
def test_answers_are_right_with_changes_from_kafka(running_over_kafka: Running, database: Database) -> None:
    running = running_over_kafka
    service = running.service()
    with traffic(service, database) as readers:
        _all_are_answered(readers)
        _a_shard_dies_and_is_back(running, readers)
    _is_what_the_database_has(service, database)


def test_no_accepted_request_is_lost_or_wrong(running: Running, database: Database) -> None:
    service = running.service()
    assert HTTP.get(f"{service.url}/v1/views/front").status_code == 401
    _put_a_view(running)
    with traffic(service, database) as readers:
        _all_are_answered(readers)
        assert not any(reader.refused for reader in readers), "nothing was away"
        _a_shard_dies_and_is_back(running, readers)
        for shard in reversed(range(SHARDS)):
            _shard_is_replaced(running, shard, readers)
        assert not any(reader.closed for reader in readers), "the gateway was there all the time"
        _gateway_is_replaced(running, service, readers)
        assert sum(reader.closed for reader in readers) <= 1
        _a_shard_is_added(running, readers)
        assert not any(reader.refused for reader in readers), "nothing was away"
    _is_what_the_database_has(service, database)
    _are_what_was_put(service, database)
    for audit in [running.audit(shard) for shard in range(MORE_SHARDS)]:
        assert audit.process is not None
        assert audit.process.wait(LIMIT_S) == 0, audit.log.read_text()


def _put_a_view(running: Running) -> None:
    """Which is in no ConfigMap: it reaches all pods, and stays on their volumes."""
    assert running.gateway is not None
    sql = "SELECT id, n FROM items WHERE pair = :pair ORDER BY id"
    put = HTTP.put(
        f"{running.gateway.url('admin')}/v1/catalog/views/late",
        json={"sql": sql},
        headers={"Authorization": f"Bearer {running.token('admin')}"},
    )
    assert put.status_code in (200, 201), put.text


def _until(readers: list[Reader], condition: Callable[[], Any]) -> None:
    def failed_or_met() -> Any:
        return any(reader.failure for reader in readers) or condition()

    until(failed_or_met, LIMIT_S)
    for reader in readers:
        if reader.failure is not None:
            raise reader.failure


def _all_are_asked(readers: list[Reader]) -> None:
    """Each item, by each reader, from now on."""
    for reader in readers:
        reader.answered.clear()
        reader.refused.clear()
    _until(readers, lambda: all({*reader.answered, *reader.refused} >= {*ITEMS} for reader in readers))


def _all_are_answered(readers: list[Reader]) -> None:
    def none_is_refused() -> bool:
        _all_are_asked(readers)
        return not any(reader.refused for reader in readers)

    until(none_is_refused, LIMIT_S)


def _until_it_is_there(new: Pod, readers: list[Reader]) -> None:
    """A pod that starts has processor time to itself: readers go on, and rest in between."""
    for reader in readers:
        reader.rests = True
    until(lambda: new.probe("startup") and new.probe("readiness"), LIMIT_S)
    for reader in readers:
        reader.rests = False


def _a_shard_dies_and_is_back(running: Running, readers: list[Reader]) -> None:
    """Kill a shard; the other one's keys are answered all the while."""
    assert running.gateway is not None
    gone = running.shards[1]
    gone.kill()
    _until(readers, lambda: any(reader.refused for reader in readers))
    _all_are_asked(readers)
    for reader in readers:
        assert reader.refused
        assert reader.answered
        assert not reader.refused.keys() & reader.answered.keys()
    assert running.gateway.probe("readiness"), "it answers what it can"
    gone.start()
    _until_it_is_there(gone, readers)
    _all_are_answered(readers)


def _shard_is_replaced(running: Running, shard: int, readers: list[Reader]) -> None:
    """Replace a pod like a StatefulSet: the old one has ended before the new one starts on its volume."""
    old = running.shards[shard]
    # So long as it is left alone before it is told to stop.
    _all_are_asked(readers)
    assert old.stop() == 0, old.log.read_text()
    new = running.shards[shard] = running.engine(shard)
    _until_it_is_there(new, readers)
    _all_are_answered(readers)


def _gateway_is_replaced(running: Running, service: Service, readers: list[Reader]) -> None:
    """Replace a pod like a Deployment: the new one is ready before the old one stops."""
    old, new = running.gateway, running.front(2)
    assert old is not None
    _until_it_is_there(new, readers)
    service.url = new.url("http")
    running.gateway = new
    _all_are_asked(readers)
    assert old.stop() == 0, old.log.read_text()
    _all_are_asked(readers)
    assert not any(reader.refused for reader in readers)


def _a_shard_is_added(running: Running, readers: list[Reader]) -> None:
    """Add a StatefulSet, and a shard in the file that the gateway follows, as an upgrade does."""
    assert running.gateway is not None
    before = {each["metadata"]["name"]: each for each in running.release.of_kind("StatefulSet")}
    ports = {"http": running.shards[0].port("http"), "admin": running.shards[0].port("admin")}
    more = {name: {"port": port} for name, port in ports.items()}
    running.cluster.upgrade(render(values(shards=MORE_SHARDS, **more)))
    after = {each["metadata"]["name"]: each for each in running.release.of_kind("StatefulSet")}
    assert {name: after[name] for name in before} == before, "pods that are there stay"
    new = running.engine(SHARDS)
    running.shards.append(new)
    running.gateway.follow()
    _until_it_is_there(new, readers)
    _until(readers, lambda: _has_moved(running))
    _until(readers, lambda: all({*reader.answered} >= {*ITEMS} for reader in readers))


def _has_moved(running: Running) -> bool:
    """Return whether the gateway reads from all of them, and keys have gone to the new one."""
    assert running.gateway is not None
    headers = {"Authorization": f"Bearer {running.token('admin')}"}
    metrics = HTTP.get(f"{running.gateway.url('admin')}/metrics", headers=headers).text
    said = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    asked = f'upquery_gateway_requests_total{{shard="{SHARDS}",worker="0"}}'
    moving = float(said['upquery_gateway_moving{worker="0"}'])
    return asked in said and moving == 0 and float(said['upquery_gateway_shards{worker="0"}']) == MORE_SHARDS


def _read(service: Service, view: str, **params: Any) -> Any:
    return HTTP.get(f"{service.url}/v1/views/{view}", params=params, headers=service.headers).json().get("rows")


def _is_what_the_database_has(service: Service, database: Database) -> None:
    for item, n in database.query("SELECT id, n FROM items"):
        until(lambda item=item, n=n: _read(service, "item", id=item) == [{"id": item, "n": n}], LIMIT_S)
    front = [{"id": item, "n": n} for item, n in database.query("SELECT id, n FROM items ORDER BY n DESC, id LIMIT 4")]
    until(lambda: _read(service, "front") == front, LIMIT_S)


def _are_what_was_put(service: Service, database: Database) -> None:
    """All pods have it still."""
    for pair in range(PAIRS):
        found = database.query("SELECT id, n FROM items WHERE pair = %s ORDER BY id", pair)
        rows = [{"id": item, "n": n} for item, n in found]
        until(lambda pair=pair, rows=rows: _read(service, "late", pair=pair) == rows, LIMIT_S)
