"""Statements that run at once: so many in all, so many of a table, and whoever came first."""

import asyncio
from random import Random

import pytest

from service.engine.reads.slots import Slots


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(20))
def test_no_more_run_than_may_and_nobody_is_left(seed: int) -> None:
    """Whatever is read, in whatever order it ends, and whoever gives up."""
    random = Random(seed)
    total = random.randrange(1, 8)
    share = max(1, total * 2 // 3)

    async def scenario() -> None:
        slots, running = Slots(total), list[tuple[str, ...]]()

        async def statement(tables: tuple[str, ...]) -> None:
            async with slots.slot(tables):
                running.append(tables)
                try:
                    assert len(running) <= total
                    assert all(sum(table in each for each in running) <= share for table in tables)
                    for _ in range(random.randrange(6)):
                        await asyncio.sleep(0)
                finally:
                    running.remove(tables)

        tasks = []
        for _ in range(200):
            tables = tuple(random.sample("abc", random.randrange(4)))
            tasks.append(asyncio.create_task(statement(tables)))
            if random.random() < 0.3:
                random.choice(tasks).cancel()
            if random.random() < 0.5:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not [task for task in tasks if not task.cancelled() and task.exception()]
        for _ in range(total):
            await asyncio.wait_for(slots.take(()), 1)

    asyncio.run(scenario())


def test_who_waits_for_a_table_keeps_no_other_waiting() -> None:
    async def scenario() -> None:
        slots = Slots(6)
        waiting = [asyncio.create_task(slots.take(("locked",))) for _ in range(50)]
        await settle()
        assert sum(task.done() for task in waiting) == 4
        for _ in range(2):
            await asyncio.wait_for(slots.take(("other",)), 1)
        slots.give(("locked",))
        await settle()
        assert [task.done() for task in waiting[:6]] == [True] * 5 + [False]
        for task in waiting:
            task.cancel()

    asyncio.run(scenario())
