"""The log of a process: whatever writes to it, its lines have one form, and of one kind there are not many."""

import json
import subprocess
import sys
from collections import Counter

import structlog
from structlog.testing import capture_logs

from service.ground.log_repeats import Repeats
from tests.fixtures.service import environment, until

#: A process that complains in every way there is.
COMPLAINS = """
import asyncio, logging, sys, threading, warnings
from service.settings.sections import LogSettings
from service.ground.logs import configure_logging
logging.getLogger("uvicorn.error").addHandler(logging.StreamHandler(sys.stderr))
configure_logging(LogSettings(format="json"), "worker-7")
log = logging.getLogger("uvicorn.error")
for n in range(330):
    log.warning("Invalid HTTP request %d received.", n)
log.warning("no place for it", "argument")
logging.getLogger("websockets.server").error("failed", exc_info=ValueError("a"))
def deep(n):
    return deep(n + 1)
try:
    deep(0)
except RecursionError:
    logging.getLogger("httpx").exception("too deep")
warnings.warn("do not", stacklevel=1)
threading.Thread(target=lambda: 1 / 0).start()
class Fails:
    def __del__(self):
        raise ValueError("b")
Fails()
async def forgotten():
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)
asyncio.run(forgotten())
raise RuntimeError("in the end")
"""


def test_whatever_a_process_says_is_a_line_of_its_log() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", COMPLAINS], env=environment(), capture_output=True, text=True, check=False
    )
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert all(line["timestamp"] and line["level"] and line["process"] == "worker-7" for line in lines)
    said = Counter(line["event"].split()[0] for line in lines)
    assert said["Invalid"] == 20
    assert set(said) >= {"no", "failed", "too", "a", "an", "the", "Exception"}, said
    assert any("do not" in line["event"] for line in lines)
    assert all(len(line.get("exception", "")) < 10_000 for line in lines)


def lines_of(repeats: Repeats, *events: dict[str, str]) -> list[dict[str, str]]:
    """Those that pass."""
    passed = []
    for event in events:
        try:
            passed.append(dict(repeats(None, "", dict(event))))
        except structlog.DropEvent:
            continue
    return passed


def test_each_kind_has_its_own_bound() -> None:
    repeats = Repeats()
    kinds = [
        {"event": "a", "level": "warning"},
        {"event": "a", "level": "error"},
        {"event": "a", "level": "error", "code": "x"},
        {"event": "b", "level": "warning"},
    ]
    lines = lines_of(repeats, *kinds * 30)
    assert len(lines) == 80
    assert repeats.left_out == 40
    assert len(lines_of(repeats, *[{"event": "a", "level": "info"}] * 90)) == 90
    assert len(lines_of(repeats, *[{"event": "a", "level": "error", "request_id": "1"}] * 900)) == 300


def test_kinds_are_bounded_too() -> None:
    repeats = Repeats()
    lines = lines_of(repeats, *({"event": str(n), "level": "error"} for n in range(5000)))
    assert len(lines) == 520


def test_what_was_left_out_is_said_once() -> None:
    repeats = Repeats(minute_s=0.2)
    with capture_logs() as told:
        lines_of(repeats, *[{"event": "a", "level": "warning", "code": "x", "path": str(n)} for n in range(28)])
        until(lambda: told)
    (line,) = told
    assert (line["of_event"], line["of_code"], line["lines"]) == ("a", "x", 8)
    # A new minute.
    assert len(lines_of(repeats, {"event": "a", "level": "warning", "code": "x"})) == 1
