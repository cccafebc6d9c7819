"""Forked commands (`tests.fixtures.forks`) do what they do in an interpreter of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.forks import ForkedPopen, start
from tests.fixtures.service import LIMIT_S, command, environment, until, upquery

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs pidfd_open and /proc")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("view", "put"),
        ("nonsense",),
        ("view", "list", "--admin", "http://127.0.0.1:1", "--json"),
        ("serve", "--config", "/nowhere.toml", "--json"),
    ],
    ids=" ".join,
)
def test_output_and_exit_code_are_an_interpreters(arguments: tuple[str, ...]) -> None:
    forked, cold = upquery(*arguments), upquery(*arguments, cold=True)
    assert (forked.returncode, forked.stdout, forked.stderr) == (cold.returncode, cold.stdout, cold.stderr)


def test_it_is_a_process_of_its_own() -> None:
    """A fork has its own session and command line, no descriptors of its server, and dies of signals."""
    arguments = command("view", "put", "name", "-")
    process = start(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
        start_new_session=True,
    )
    assert isinstance(process, ForkedPopen)
    own = Path(f"/proc/{process.pid}")
    with process:
        # Its command line is set last; then it reads its input.
        until(lambda: (own / "cmdline").read_text().rstrip("\0").split("\0") == arguments)
        assert os.getsid(process.pid) == process.pid
        assert not [each for each in (own / "fd").iterdir() if os.readlink(each).startswith("socket")]
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == -signal.SIGTERM
