"""All faults, by the set-up that they can happen in."""

from collections.abc import Callable, Iterator, Sequence

from tests.faults import faults, replicas, restarts
from tests.faults.bed import Bed
from tests.faults.injection import Fault
from tests.faults.kafka_side import KafkaSide
from tests.faults.restarts import SUPERVISOR
from tests.faults.sides import MariaSide, PostgresSide, Side

#: Longer than the watchdog waits.
_FOR_GOOD_S = 14.0
_DIED, _HANGS = r"child died", r"child hangs"
_SILENT = r'upquery_process_silent\{{process="{}"\}} 1'
_LOST = r"change stream lost"
_BROKE = r"the connection of the change stream broke"
_WRITTEN, _NOT_WRITTEN = r"checkpoint written", r"the checkpoint cannot be written"
_DAMAGED, _REFUSED = "the checkpoint is damaged", "the checkpoint is not used"
#: Of answers that are seconds behind.
_OLD = r"upquery_age_seconds [3-9]"
SIDES: dict[str, Callable[[], Side]] = {"postgres": PostgresSide, "mariadb": MariaSide, "kafka": KafkaSide}


def _killed_at_checkpoints(processes: dict[str, str]) -> Iterator[Fault]:
    """Yield the faults of processes, by their names in the table, at random moments of a checkpoint."""
    for done, kill in (("written", restarts.killed_while_writing), ("read", restarts.killed_while_reading)):
        for subject, name in processes.items():
            yield Fault(f"{subject} is killed while a checkpoint is {done}", kill(name), 0, "", hits_go_on=False)


PROCESSES = (
    Fault("a worker is killed", faults.killed("worker-0"), 1, _DIED),
    Fault("all workers are killed", faults.killed("worker-0", "worker-1"), 2, _DIED, hits_go_on=False),
    Fault("the engine is killed", faults.killed("engine"), 2, _DIED),
    Fault("engine and a worker are killed", faults.killed("engine", "worker-1"), 2, _DIED),
    Fault("the supervisor is killed", restarts.lost, 0, "", hits_go_on=False),
    Fault("the engine stops for 8 s", faults.stopped("engine", goes_on=True), 8, _SILENT.format("engine")),
    Fault("the engine stops for good", faults.stopped("engine", goes_on=False), _FOR_GOOD_S, _HANGS),
    Fault("a worker stops for 8 s", faults.stopped("worker-0", goes_on=True), 8, _SILENT.format("worker-0")),
    Fault("a worker stops for good", faults.stopped("worker-1", goes_on=False), _FOR_GOOD_S, _HANGS),
    Fault("the engine gets no memory", faults.without_memory, 4, ""),
    Fault(
        "a worker may open no more files", faults.without_descriptors, 3, r'upquery_files_left\{worker="0"\} [0-5]\.'
    ),
    Fault("230 connections to the admin port", lambda bed: faults.crowded(bed, bed.service.admin, 230), 3, ""),
)
DATABASE = (
    Fault("all connections to the database are cut", lambda bed: faults.cut(bed, b""), 1, ""),
    Fault("all connections to the database are half open", lambda bed: faults.stalled(bed, b""), 10, _OLD),
    Fault("the server ends all connections", lambda bed: faults.ended(bed.side.end_connections), 1, ""),
    Fault("the database is restarted", lambda bed: faults.ended(bed.side.restart), 1, ""),
    Fault("the database crashes", faults.crashed, 3, "."),
    Fault("the database crashes, the engine too", lambda bed: faults.crashed(bed, "engine"), 3, _DIED),
    Fault("a table is locked", lambda bed: bed.side.locked(), 5, ""),
)
#: Of a database that is followed directly.
STREAM = (
    Fault("the change stream's connection is cut", lambda bed: faults.cut(bed, bed.side.stream_says), 1, "."),
    Fault("the change stream's connection is half open", lambda bed: faults.stalled(bed, bed.side.stream_says), 6, "."),
    Fault("the server ends the change stream's connection", lambda bed: faults.ended(bed.side.end_stream), 1, "."),
)
RESTARTS = (
    Fault("the service is restarted", restarts.restarted, 0, "", hits_go_on=False),
    Fault(
        "the service is restarted, the database crashes",
        lambda bed: restarts.restarted(bed, lambda: faults.crashed(bed)),
        2,
        "",
        hits_go_on=False,
    ),
    Fault("everything is restarted, one after the other", restarts.one_by_one, 0, "", hits_go_on=False),
)
#: Where a restart is warm.
CHECKPOINTS = (
    *_killed_at_checkpoints({"a worker": "worker-0", "the engine": "engine", "the supervisor": SUPERVISOR}),
    Fault("a checkpoint is torn", restarts.damaged(restarts.tear, _DAMAGED), 0, "", hits_go_on=False),
    Fault("a checkpoint is truncated", restarts.damaged(restarts.truncate, _DAMAGED), 0, "", hits_go_on=False),
    Fault(
        "a checkpoint has an older format",
        restarts.damaged(restarts.make_older, _REFUSED),
        0,
        "",
        hits_go_on=False,
    ),
    Fault("a checkpoint has another schema", restarts.altered, 0, _WRITTEN, hits_go_on=False),
)
STATE = (Fault("the state directory cannot be written", faults.without_state, 1, "cannot be stored"),)
#: Where they can be mounted.
DISKS = (
    Fault("the state directory's disk is full", faults.without_room_for_state, 2, "cannot be written"),
    Fault(
        "the state directory's disk is full at a restart",
        faults.restarted_without_room,
        0,
        _NOT_WRITTEN,
        hits_go_on=False,
    ),
    Fault("the leaf store's disk is full", faults.without_room_for_leaves, 4, "room in the file system"),
)
POSTGRES = (
    # Where that takes longer than the watchdog waits, the engine is ended for it.
    Fault("the server takes the slot away", faults.without_slot, 1, f"{_LOST}|{_HANGS}"),
    Fault("the walsender is killed, and the server with it", lambda bed: faults.ended(bed.side.kill_stream), 1, _BROKE),  # type: ignore[union-attr]
    Fault("a server with little patience, a late engine", faults.impatient, 6, _SILENT.format("engine")),
    Fault("the server stops sending changes", lambda bed: bed.side.stream_stopped(), 8, _BROKE),  # type: ignore[union-attr]
    Fault("the engine is killed in a long transaction", faults.forgotten_transaction, 8, r"pg_terminate_backend\("),
    Fault("a view of a new table in a long transaction", faults.new_table, 4, ""),
    Fault("a standby is promoted", faults.promoted, 2, _BROKE),
    Fault("the database is read-only by default", lambda bed: bed.side.read_only(), 2, ""),  # type: ignore[union-attr]
)
MARIADB = (
    # Another server: the stream begins anew.
    Fault("a replica is promoted", lambda bed: faults.ended(bed.side.fail_over), 1, _LOST),  # type: ignore[union-attr]
    Fault(
        "the database is restarted with a new log", lambda bed: faults.ended(bed.side.begin_log), 1, _LOST, last=True
    ),  # type: ignore[union-attr]
)
KAFKA = (
    Fault("the broker is killed", faults.without_broker, 2, ""),
    Fault("the connector is killed", faults.without_connector, 2, ""),
    Fault(
        "topics are truncated before they are read",
        lambda bed: faults.unread(bed, KafkaSide.truncated_topics),
        1,
        _LOST,
    ),
    Fault(
        "topics are compacted before they are read",
        lambda bed: faults.unread(bed, KafkaSide.compacted_topics),
        1,
        _LOST,
    ),
)
#: With several engines.
SHARDS = (
    Fault("one of two engines is killed", faults.killed("engine-0"), 2, _DIED),
    Fault("one of two engines stops for 8 s", faults.stopped("engine-1", goes_on=True), 8, _SILENT.format("engine-1")),
    Fault("one of two engines stops for good", faults.stopped("engine-1", goes_on=False), _FOR_GOOD_S, _HANGS),
    Fault("the stream process is killed", faults.killed("stream"), 2, _DIED),
    Fault("the stream process stops for 6 s", faults.stopped("stream", goes_on=True), 6, _SILENT.format("stream")),
    Fault("both engines and the stream process die", faults.killed("engine-0", "engine-1", "stream"), 2, _DIED),
    *RESTARTS,
)
#: Where a restart of several engines is warm.
SHARD_CHECKPOINTS = (
    *_killed_at_checkpoints({"an engine": "engine-1", "the stream process": "stream", "the supervisor": SUPERVISOR}),
)


#: With replicas behind a gateway.
REPLICAS = (
    Fault("a replica is killed", replicas.bereft, 2, ""),
    Fault("database and replicas are restarted, one by one", replicas.rolled, 0, ""),
)


def faults_of(upstream: str, *, shards: bool = False, replicas: bool = False) -> Sequence[Fault]:
    """Return those of a set-up."""
    if replicas:
        return REPLICAS
    if shards:
        return [*SHARDS, *SHARD_CHECKPOINTS]
    if upstream == "kafka":
        return [*PROCESSES[2:5], *DATABASE, *KAFKA, *RESTARTS]
    of_server = POSTGRES if upstream == "postgres" else MARIADB
    return [*PROCESSES, *DATABASE, *STREAM, *RESTARTS, *CHECKPOINTS, *STATE, *DISKS, *of_server]


def possible(bed: Bed, fault: Fault) -> bool:
    """Return whether it can be injected here."""
    return bed.disks is not None or fault not in DISKS
