"""Places in a connector's topics at which a stream of another process can continue.

*Theory*: an offset does not identify what precedes it: a topic may be created again, restored, or lose its last records
with a broker's disk. So a place has the ids of cluster and topics, and of each partition the last record that was read,
which is read again and compared. The database's log is identified beside, by `SourceLog`: topics do not say whether
lookups read the database that the connector reads.

Not here: reading records (`last_records`), transactions (`progress`).
"""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self

from cdc.debezium.options import DebeziumOptions
from cdc.debezium.progress import AssemblyProgress
from cdc.debezium.read_offsets import Partition


class SourceLog(Protocol):
    """Log of the database that the connector reads, as the database itself describes it."""

    async def mark(self) -> str:
        """Return a text that identifies the log and its present end; "" if that is impossible. Raises StreamLost."""
        ...

    async def refusal(self, mark: str, position: int) -> str:
        """Return why the log is not the one of `mark`, or ends before `position`; empty if it certainly is. Raises
        StreamLost."""
        ...


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """Offset of a partition from which on it is read, and its last record that was read.

    `last` is the offset of that record, and `digest` its digest; -1: there was none.
    """

    topic: str
    partition: int
    offset: int
    last: int
    digest: str

    @property
    def name(self) -> Partition:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """A place behind a transaction, in all topics. A followed table without a partition had no topic."""

    #: The settings that name the topics.
    prefix: str
    transactions: str
    cluster: str
    #: Ids of the topics.
    topics: dict[str, str]
    partitions: list[PartitionPlace]
    log: str
    progress: AssemblyProgress
    #: `IdentityProofs.state`.
    proofs: list[Any]

    def text(self) -> str:
        """The place as text."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a place. Raises ValueError."""
        try:
            fields = json.loads(text)
            partitions = [PartitionPlace(**each) for each in fields["partitions"]]
            return cls(**{**fields, "partitions": partitions, "progress": AssemblyProgress(**fields["progress"])})
        except (TypeError, KeyError) as problem:
            raise ValueError(str(problem)) from None

    def offsets(self, topics: Collection[str]) -> dict[Partition, int]:
        """Return the offsets of these topics' partitions."""
        return {each.name: each.offset for each in self.partitions if each.topic in topics}

    def names_refusal(self, options: DebeziumOptions) -> str:
        """Return why the settings name other topics; empty if they name these."""
        if (prefix_of(options), options.transactions) != (self.prefix, self.transactions):
            return f"The settings name other topics: they were {self.prefix!r} and {self.transactions!r}."
        return ""


def prefix_of(options: DebeziumOptions) -> str:
    """Return the setting that names the topics of tables."""
    return options.routed_topic or options.topic_prefix
