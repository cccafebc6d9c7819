"""Comparison of a side's answers with the database's, for the same reads.

Nothing may be written meanwhile. Rows are compared as bags, those of ordered views in their order.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from load.driver.connection import SingleConnection
from load.driver.visit import read_many
from load.sides.side import Side

#: A view and its parameters.
Read = tuple[str, Mapping[str, Any]]

_EXAMPLES = 5
_EXAMPLE_CHARACTERS = 300


class AuditError(Exception):
    """One of the two did not answer; the message says which and what it said."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Counts of compared and different answers, with examples."""

    compared: int
    different: int
    #: The first of them: the read, the side's rows, and those of the truth.
    examples: tuple[str, ...] = ()


def audit(
    side: Side,
    truth: Side,
    reads: Sequence[Read],
    *,
    ordered: Collection[str] = (),
    newer_than: str | None = None,
    at_once: int = 50,
) -> AuditResult:
    """Compare the answers of `side` with those of `truth`, `at_once` in one request; `newer_than` is asked of both.

    Raises `AuditError`, and what `SingleConnection.ask` raises.
    """
    compared = different = 0
    examples: list[str] = []
    with (
        SingleConnection(side.reads_url, side.writes_url, 120) as ours,
        SingleConnection(truth.reads_url, truth.writes_url, 120) as theirs,
    ):
        for start in range(0, len(reads), at_once):
            some = reads[start : start + at_once]
            answers = _rows(side, ours, some, newer_than), _rows(truth, theirs, some, newer_than)
            for read, mine, other in zip(some, *answers, strict=True):
                compared += 1
                in_order = read[0] in ordered
                if _comparable(mine, in_order=in_order) != _comparable(other, in_order=in_order):
                    different += 1
                    if len(examples) < _EXAMPLES:
                        examples.append(f"{read[0]} {dict(read[1])}: {_brief(mine)} instead of {_brief(other)}")
    return AuditResult(compared, different, tuple(examples))


def _rows(
    side: Side, connection: SingleConnection, reads: Sequence[Read], newer_than: str | None
) -> Iterator[list[Any]]:
    reply = connection.ask(read_many(reads, newer_than))
    if reply.status != 200:
        raise AuditError(f"{side.name} answered {reply.status}: {reply.body[:500].decode(errors='replace')}")
    return (result["rows"] for result in orjson.loads(reply.body)["results"])


def _comparable(rows: list[Any], *, in_order: bool) -> list[bytes]:
    texts = [orjson.dumps(row, option=orjson.OPT_SORT_KEYS) for row in rows]
    return texts if in_order else sorted(texts)


def _brief(rows: list[Any]) -> str:
    text = orjson.dumps(rows).decode()
    return text if len(text) <= _EXAMPLE_CHARACTERS else f"{text[:_EXAMPLE_CHARACTERS]}… ({len(rows)} rows)"
