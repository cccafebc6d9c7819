"""Child processes: what they are told, what they say, and that they end with their parent."""

import asyncio
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

from service.protocol.child import StartReport, read_report, receive_configuration, send_configuration
from service.supervisor.children import Child, StartError
from tests.fixtures.service import alive, environment, until


def test_a_configuration_arrives_whole() -> None:
    assert receive_configuration(io.BytesIO(send_configuration({"a": Path("b")}))) == {"a": Path("b")}


def test_a_line_that_is_no_report_is_none() -> None:
    assert read_report(b"") is None
    assert read_report(b"hello\n") is None
    assert read_report(b'{"ready": false, "message": "m", "exit_code": 2}\n') == StartReport(False, "m", 2)


def test_a_child_that_dies_at_its_start_is_an_error() -> None:
    async def scenario() -> str:
        child = Child("engine", "no configuration that a child knows")
        try:
            await child.start()
        except StartError as error:
            return str(error)
        finally:
            await child.stop()
        return ""

    assert "engine" in asyncio.run(scenario())


CHILD = (
    "import threading; from service.protocol.child import end_with_parent; end_with_parent(); "
    "print('up', flush=True); threading.Event().wait()"
)
PARENT = f"""
import subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c", {CHILD!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_child_ends_with_its_parent_however_that_dies() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    until(lambda: not alive(child))


def _environment() -> dict[str, str]:
    root = str(Path(__file__).parents[3])
    return environment(PYTHONPATH=os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
