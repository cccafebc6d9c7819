"""Long SQL texts are read in a process of their own, which ends with its parent and may end before it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataflow.errors import InvalidQuery
from service.ground import long_texts
from service.ground.long_texts import begin, beside
from tests.fixtures.service import until

LONG = "SELECT 1 " + "-" * 1000
LIMIT_S = 30.0
#: Begins one, says which it is, and is killed.
PARENT = """
import asyncio, os, signal
from service.ground.long_texts import begin, beside
from tests.service.engine.test_long_texts import other_process
if __name__ == "__main__":
    print(asyncio.run(other_process()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def apart() -> Iterator[None]:
    yield
    if long_texts._apart is not None:
        long_texts._apart.pool.shutdown(cancel_futures=True)
        long_texts._apart = None


async def other_process() -> int:
    """The id of the process, once it is up."""
    begin()
    return await again(os.getpid())


async def again(*not_these: int) -> int:
    """The id of the process that reads texts, once it is none of these."""
    async with asyncio.timeout(LIMIT_S):
        while (found := await beside(LONG, os.getpid)) in not_these:
            await asyncio.sleep(0.01)
    return found


def refuse(sql: str) -> None:
    raise InvalidQuery(f"{len(sql)} characters", hint="Send fewer.")


def test_a_process_reads_them() -> None:
    async def scenario() -> None:
        assert await beside(LONG, os.getpid) == os.getpid()
        assert await other_process() != os.getpid()
        assert await beside("SELECT 1", os.getpid) == os.getpid()
        with pytest.raises(InvalidQuery, match="1009 characters") as raised:
            await beside(LONG, refuse, LONG)
        assert raised.value.hint == "Send fewer."

    asyncio.run(scenario())


def test_a_process_that_ends_is_begun_anew() -> None:
    async def scenario() -> None:
        first = await other_process()
        os.kill(first, signal.SIGKILL)
        assert await again(first, os.getpid())

    asyncio.run(scenario())


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "parent.py"
    path.write_text(PARENT)
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    process = Path("/proc") / done.stdout.strip()
    until(lambda: not process.exists() or "zombie" in (process / "status").read_text())
