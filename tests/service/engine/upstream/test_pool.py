"""The pool of connections, with a driver whose connections are numbers."""

import asyncio

import pytest

from service.engine.upstream.pool import ConnectionPool
from service.engine.upstream.results import UpstreamError
from tests.fixtures.streams import run


class Numbers:
    """Opens 1, 2, 3 …; `ended` has those that were closed, `lost` those that the server has closed."""

    def __init__(self) -> None:
        self.opened, self.most_open = 0, 0
        self.ended: list[int] = []
        self.lost: set[int] = set()

    async def open(self) -> int:
        self.opened = number = self.opened + 1
        self.most_open = max(self.most_open, self.opened - len(self.ended))
        await asyncio.sleep(0)
        return number

    def is_open(self, connection: int) -> bool:
        return connection not in self.lost

    async def end(self, connection: int) -> None:
        await asyncio.sleep(0)
        self.ended.append(connection)


async def reusable(connection: int) -> bool:
    return bool(connection)


async def broken(connection: int) -> bool:
    return not connection


def test_connections_are_reused_unless_they_are_broken() -> None:
    async def check() -> None:
        numbers = Numbers()
        pool = ConnectionPool(numbers, 2, 1.0)
        lent = []
        for decide in (reusable, broken, reusable, reusable):
            async with pool.lend(decide) as connection:
                lent.append(connection)
        assert lent == [1, 1, 2, 2]
        numbers.lost.add(2)
        async with pool.lend(reusable) as connection:
            assert connection == 3
        assert numbers.ended == [1, 2]

    run(check())


def test_the_limit_holds_when_connections_become_outdated() -> None:
    """Those that are lent count until they are closed."""

    async def check() -> None:
        numbers = Numbers()
        pool = ConnectionPool(numbers, 2, 1.0)

        async def use() -> None:
            for _ in range(5):
                async with pool.lend(reusable):
                    await asyncio.sleep(0)

        users = [asyncio.create_task(use()) for _ in range(5)]
        for _ in range(4):
            await asyncio.sleep(0)
            await pool.begin_anew()
        await asyncio.gather(*users)
        assert numbers.most_open == 2
        await pool.close()
        assert sorted(numbers.ended) == list(range(1, numbers.opened + 1))

    run(check())


@pytest.mark.parametrize("when", ["opened", "lent", "reset"])
def test_an_outdated_connection_is_not_lent_again(when: str) -> None:
    """However far it was when all connections were to be opened anew."""

    async def check() -> None:
        numbers = Numbers()
        pool = ConnectionPool(numbers, 1, 1.0)

        async def reset(_: int) -> bool:
            if when == "reset":
                await pool.begin_anew()
            return True

        async def use() -> None:
            async with pool.lend(reset):
                if when == "lent":
                    await pool.begin_anew()

        using = asyncio.create_task(use())
        await asyncio.sleep(0)
        if when == "opened":
            await pool.begin_anew()
        await using
        async with pool.lend(reusable) as connection:
            assert connection == 2

    run(check())


def test_a_closed_pool_lends_nothing() -> None:
    async def check() -> None:
        numbers = Numbers()
        pool = ConnectionPool(numbers, 1, 1.0)
        async with pool.lend(reusable):
            await pool.close()
        assert numbers.ended == [1]
        with pytest.raises(UpstreamError) as refused:
            async with pool.lend(reusable):
                raise AssertionError
        assert (refused.value.code, refused.value.retryable) == ("unavailable", False)

    run(check())
