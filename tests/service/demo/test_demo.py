"""The demo as a user meets it: a command in a process of its own."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

pytestmark = pytest.mark.postgres
ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 180


@pytest.fixture
def folder() -> Iterator[Path]:
    """Folder of the demo, for tests of what it leaves behind. The database's account may enter it."""
    path = Path(tempfile.mkdtemp(prefix="demo-test-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def demo(folder: Path) -> Iterator[Any]:
    """Starts the demo with some arguments; what still runs at the end is stopped."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from service.command.cli import app; app()", "demo", "--json", *arguments]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.wait(30)


def free_ports() -> tuple[str, str, str, str]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return ("--port", str(one.getsockname()[1]), "--admin-port", str(other.getsockname()[1]))


def first_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], LIMIT_S)
    line = process.stdout.readline() if readable else ""
    assert line, process.communicate()[1]
    announced: dict[str, Any] = json.loads(line)
    return announced


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that have to do with the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(folder) in command:
                found.append(command)
    return found


def test_answers_equal_the_databases_while_it_is_written_to(demo: Any, folder: Path) -> None:
    process = demo("--check", "--rounds", "4", "--rate", "200", *free_ports())
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, out + err
    announced, checked = map(json.loads, out.splitlines())
    assert len(announced["reads"]) >= 6
    assert checked == {"differences": []}
    assert processes_of(folder) == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_stops_and_leaves_nothing_behind(demo: Any, folder: Path, number: signal.Signals) -> None:
    process = demo("--no-load", *free_ports())
    announced = first_line(process)
    assert processes_of(folder) != []
    with urlopen(announced["reads"][0], timeout=30) as reply:
        assert len(json.load(reply)["rows"]) == 1
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert processes_of(folder) == []
    assert list(folder.iterdir()) == []


def test_a_port_that_is_taken_is_told(demo: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = demo("--port", str(taken.getsockname()[1]))
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "is in use: choose another --port" in err
