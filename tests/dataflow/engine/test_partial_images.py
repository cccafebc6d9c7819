"""Partial changes of a table that has another identity than its primary key."""

from collections.abc import Iterator
from dataclasses import replace

from dataflow.engine.effects import LeafEvict, LeafFill
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Apply,
    InstallView,
    LookupDone,
    LookupsDone,
    Read,
    StreamStarted,
    TableDelta,
    Transaction,
)
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.types import UNKNOWN, PartialChange, ReadId, TransactionId, ViewId
from tests.dataflow.engine.site import Now

INT, TEXT = SqlType("int4", "int4"), SqlType("text", "text")
USERS = Table(
    "public.users",
    (Column("id", INT, True), Column("login", TEXT, True), Column("name", TEXT)),
    keys=((0,), (1,)),
    identity=(1,),
)
VIEW = ViewId(1)


def covering(sql: str, rows: dict[tuple[str], tuple[str, ...]], table: Table = USERS) -> Engine:
    """An engine that covers these keys of a view."""
    catalog = Catalog({"public.users": table})
    engine = Engine(catalog)
    engine.step(StreamStarted(0, Now()))
    engine.step(InstallView(VIEW, plan_view("v", sql, catalog)))
    for number, (key, row) in enumerate(rows.items(), 1):
        (lookup,) = engine.step(Read(ReadId(number), ((VIEW, key, None),)))
        assert isinstance(lookup, Lookup)
        engine.step(LookupsDone([LookupDone(lookup.id, [row], Now(), 0)]))
    return engine


def applied(engine: Engine, change: PartialChange) -> Iterator[tuple[str, tuple[str | None, ...], list[object]]]:
    """The leaf's changes by one update."""
    yield from leaf_changes(engine, TableDelta(partial=[change]))


def leaf_changes(engine: Engine, delta: TableDelta) -> Iterator[tuple[str, tuple[str | None, ...], list[object]]]:
    """The leaf's changes by one transaction."""
    for effect in engine.step(Apply([Transaction(TransactionId(1), 10, {"public.users": delta})], 10)):
        if isinstance(effect, LeafEvict):
            yield "evicted", effect.key, []
        elif isinstance(effect, LeafFill):
            yield "filled", effect.key, list(effect.rows)


def test_an_identity_that_does_not_tell_the_key_refills_nothing() -> None:
    """The view was planned when old rows were whole. Any key may have lost its row: none is taken for empty."""
    rows = {("1",): ("1", "a"), ("2",): ("2", "b")}
    engine = covering("SELECT id, name FROM users WHERE id = :id", rows, replace(USERS, identity=None))
    change = ((UNKNOWN, "x", UNKNOWN), ("1", "x", "c"))
    assert list(applied(engine, change)) == [("evicted", ("1",), []), ("evicted", ("2",), [])]


def test_a_key_that_the_identity_tells_is_refilled() -> None:
    engine = covering("SELECT login, name FROM users WHERE login = :login", {("x",): ("x", "a"), ("y",): ("y", "b")})
    assert list(applied(engine, ((UNKNOWN, "x", UNKNOWN), ("1", "x", "c")))) == [
        ("evicted", ("x",), []),
        ("filled", ("x",), [("x", "c")]),
    ]


def test_a_row_that_is_deleted_leaves_its_key_empty() -> None:
    engine = covering("SELECT login, name FROM users WHERE login = :login", {("x",): ("x", "a")})
    assert list(applied(engine, ((UNKNOWN, "x", UNKNOWN), None))) == [
        ("evicted", ("x",), []),
        ("filled", ("x",), []),
    ]


def test_keys_that_rows_known_in_part_may_be_under() -> None:
    """Those that agree with the known values, whatever else the transaction has of such rows."""
    rows = {("x",): ("x", "a"), ("y",): ("y", "b")}
    engine = covering("SELECT login, name FROM users WHERE login = :login", rows, replace(USERS, identity=None))
    removed, added = [("1", "x", "c")], [("1", "x", "d"), ("2", "x", "d")]
    delta = TableDelta(removed, added, implied=[(UNKNOWN, "x", UNKNOWN), (UNKNOWN, "z", UNKNOWN)])
    assert list(leaf_changes(engine, delta)) == [("evicted", ("x",), [])]


def test_an_implied_row_with_its_identity_takes_no_row_away() -> None:
    """Its key is not taken for empty: the row may be another one, or be there again."""
    engine = covering("SELECT login, name FROM users WHERE login = :login", {("x",): ("x", "a")})
    partial: list[PartialChange] = [((UNKNOWN, "x", UNKNOWN), None)]
    delta = TableDelta(partial=partial, implied=[(UNKNOWN, "x", UNKNOWN)])
    assert list(leaf_changes(engine, delta)) == [("evicted", ("x",), [])]
