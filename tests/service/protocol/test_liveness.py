"""Beats of a process: they stop where its loop has no turn, and go on when it has one again."""

import asyncio
import os
import select
import threading

import pytest

from service.protocol import liveness
from service.protocol.liveness import Beats

#: Longer than between two liveness, here.
SILENT_S = 0.3


def silent(pipe: int) -> bool:
    """Return whether no more beats come; those that have come are taken."""
    if not select.select([pipe], [], [], SILENT_S)[0]:
        return True
    os.read(pipe, 1 << 12)
    return False


def test_a_loop_without_turns_is_shown_and_then_the_beats_end(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"BEAT_S": 0.01, "LATE_S": 0.05, "HANGS_S": 0.2}.items():
        monkeypatch.setattr(liveness, name, value)
    reading, writing = os.pipe()
    beating = Beats(writing)

    async def scenario() -> None:
        beating.follow(asyncio.get_running_loop())
        beating.start()
        # The loop waits here, and has no turn.
        while not silent(reading):
            pass
        async with asyncio.timeout(20):
            while not select.select([reading], [], [], 0)[0]:
                await asyncio.sleep(0.01)

    try:
        asyncio.run(scenario())
    finally:
        os.close(reading)
        beating.join(20)
        os.close(writing)
    assert not beating.is_alive()
    shown = capfd.readouterr()
    assert "the event loop has had no turn" in shown.out + shown.err
    assert "in silent" in shown.err


def test_before_there_is_a_loop_a_process_beats() -> None:
    reading, writing = os.pipe()
    beating = Beats(writing)
    beating.start()
    assert select.select([reading], [], [], 20)[0]
    assert beating in threading.enumerate()
    os.close(reading)
    beating.join(20)
    os.close(writing)
    assert not beating.is_alive()
