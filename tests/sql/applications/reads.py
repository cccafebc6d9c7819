"""Reads of the applications in a database's SQL, and the reasons why some have no incremental plan.

*Not here*: what the answers are (`tests.sql.corpus_run`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataflow.errors import UnsupportedQuery
from dataflow.schema import Catalog
from dataflow.sql import plan_view

HERE = Path(__file__).parent
APPLICATIONS = ("forum", "shop", "tracker")
#: Reads of each application.
READS = 100
#: Types of ``schema.sql`` that MariaDB has under other names.
MARIADB_TYPES = {
    "bigserial": "bigint AUTO_INCREMENT",
    "timestamptz": "datetime(6)",
    "timestamp(6)": "datetime(6)",
    "jsonb": "json",
}
_POSTGRES, _MARIADB = "-- postgres\n", "\n-- mariadb\n"


@dataclass(frozen=True, slots=True)
class Read:
    """A statement that an application sends, and its purpose."""

    application: str
    purpose: str
    sql: str


@dataclass(frozen=True, slots=True)
class Planned:
    """A read, and the reason why it has no incremental plan: "" if it has one."""

    read: Read
    reason: str


def schema(dialect: str) -> list[str]:
    """Statements that make the tables."""
    text = (HERE / "schema.sql").read_text(encoding="utf-8")
    for name, other in MARIADB_TYPES.items() if dialect == "mariadb" else ():
        text = text.replace(name, other)
    return [statement for statement in text.split(";") if statement.strip()]


def reads(dialect: str) -> list[Read]:
    """All reads in the SQL of a database."""
    return [read for application in APPLICATIONS for read in _reads(application, dialect)]


def _reads(application: str, dialect: str) -> Iterator[Read]:
    text = (HERE / f"{application}.sql").read_text(encoding="utf-8")
    for paragraph in text.strip().split("\n\n")[1:]:
        purpose, _, sql = paragraph.partition("\n")
        if sql.startswith(_POSTGRES):
            texts = sql.removeprefix(_POSTGRES).split(_MARIADB)
            sql = texts[dialect == "mariadb"]
        yield Read(application, purpose.removeprefix("-- "), sql)


def planned(catalog: Catalog) -> list[Planned]:
    """All reads, planned over a catalog."""
    return [Planned(read, _refusal(read.sql, catalog)) for read in reads(catalog.dialect)]


def _refusal(sql: str, catalog: Catalog) -> str:
    try:
        plan_view("read", sql, catalog)
    except UnsupportedQuery as error:
        return error.reason
    return ""


def share(found: Sequence[Planned]) -> float:
    """The share of reads that have an incremental plan."""
    return sum(not item.reason for item in found) / len(found)


def table(found: Sequence[Planned]) -> list[str]:
    """Numbers of incremental reads by application, and the reasons of the others, most common first."""
    counts = Counter(item.read.application for item in found if not item.reason)
    lines = [f"{counts[application]:4} of {READS}  {application}" for application in APPLICATIONS]
    for reason, number in Counter(item.reason for item in found if item.reason).most_common():
        purposes = "; ".join(f"{i.read.application}: {i.read.purpose}" for i in found if i.reason == reason)
        lines.append(f"{number:4}  {reason} ({purposes})")
    return lines
