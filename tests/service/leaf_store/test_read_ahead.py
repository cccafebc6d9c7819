"""Rows that are read ahead are those that are read at once; others have turns meanwhile; what changes is not used."""

import asyncio

import pytest

from dataflow.engine.effects import LeafChange, LeafFill
from dataflow.types import Row, ViewId
from service.leaf_store.read_ahead import AT_ONCE_ROWS, NOTHING, SLICE_ROWS, Ahead, ReadAhead
from service.leaf_store.request import names_of
from service.leaf_store.transaction import LeafTransaction
from service.leaf_store.writer import LeafWriter
from tests.service.leaf_store.sample_views import BY_AUTHOR, make_view

VIEW = ViewId(1)
MANY = 5 * SLICE_ROWS


def fill(writer: LeafWriter, rows: list[Row], *, ordered: bool = False) -> bytes:
    """The name of the entry that has these rows."""
    writer.register(VIEW, BY_AUTHOR if ordered else make_view("of", {"author": 2}), status="ready")
    writer.commit([LeafFill(VIEW, ("ann",), rows)], 1, 0)
    (name,) = names_of(writer.info(VIEW), ("ann",))
    return name


def different(n: int) -> list[Row]:
    return [(str(i), f"title {i}", "ann", "0") for i in range(n)]


def read(writer: LeafWriter, ahead: Ahead) -> bytes:
    (answer,), _ = writer.reader.read([(VIEW, ("ann",), None)], ahead)
    assert answer is not None
    return answer.rows


async def with_others(writer: LeafWriter, name: bytes) -> tuple[Ahead, int]:
    """Return the result of reading ahead, and the number of turns that another task had meanwhile."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    ahead = await ReadAhead().read(writer.reader.begin, [name])
    task.cancel()
    return ahead, turns


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(
    "rows",
    [
        different(MANY),
        different(MANY + 1),
        # Some occur twice; of the titles of some, the order's bytes are cut.
        [*different(MANY), *different(SLICE_ROWS + 7)],
        [(str(i), "t" * 600 + str(i % 7), "ann", "0") for i in range(MANY)],
    ],
    ids=["whole slices", "one more", "twice", "long"],
)
def test_rows_are_those_that_are_read_at_once(writer: LeafWriter, rows: list[Row], ordered: bool) -> None:
    name = fill(writer, rows, ordered=ordered)
    ahead, turns = asyncio.run(with_others(writer, name))
    assert name in ahead
    assert turns >= MANY // SLICE_ROWS
    assert read(writer, ahead) == read(writer, NOTHING)


def test_few_rows_are_read_at_once(writer: LeafWriter) -> None:
    name = fill(writer, different(AT_ONCE_ROWS))
    assert asyncio.run(ReadAhead().read(writer.reader.begin, [name])) == NOTHING


def test_rows_that_change_meanwhile_are_read_again(writer: LeafWriter) -> None:
    name = fill(writer, different(MANY))

    async def scenario() -> tuple[Ahead, Ahead]:
        before = await ReadAhead().read(writer.reader.begin, [name])
        during = asyncio.create_task(ReadAhead().read(writer.reader.begin, [name]))
        await asyncio.sleep(0)
        old, new = ("7", "title 7", "ann", "0"), ("7", "title 7", "ann", "1")
        writer.commit([LeafChange(VIEW, {("ann",): ([old], [new])})], 2, 0)
        return before, await during

    before, during = asyncio.run(scenario())
    assert during == NOTHING
    assert name in before
    assert read(writer, before) == read(writer, NOTHING)
    assert b'"votes":1' in read(writer, before)


def test_what_was_read_is_kept_for_as_long_as_it_is_right(writer: LeafWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    name = fill(writer, different(MANY))
    reading, begun, more = ReadAhead(), 0, (str(MANY), "new", "ann", "0")

    def begin() -> LeafTransaction:
        nonlocal begun
        begun += 1
        return writer.reader.begin()

    async def asked() -> bytes:
        return (await reading.read(begin, [name]))[name][1]

    async def several() -> None:
        nonlocal begun
        # Those who ask at once read it once.
        first, *others = await asyncio.gather(*(asked() for _ in range(4)))
        assert others == [first] * 3
        assert begun == 4 + MANY / SLICE_ROWS
        begun = 0
        writer.commit([LeafChange(VIEW, {("ann",): ([], [more])})], 2, 0)
        new = await asked()
        assert sorted(new.split(b"},")) != sorted(first.split(b"},"))
        assert begun == 1 + MANY / SLICE_ROWS + 1
        begun = 0
        assert await asked() is new
        assert begun == 1
        # What is larger than all that is kept is not.
        monkeypatch.setattr("service.leaf_store.read_ahead.KEPT_BYTES", len(new) - 1)
        writer.commit([LeafChange(VIEW, {("ann",): ([more], [])})], 3, 0)
        assert len(await asked()) < len(new)
        assert begun == 2 + MANY / SLICE_ROWS

    asyncio.run(several())
