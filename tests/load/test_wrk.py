"""wrk's account of a run."""

import stat
from pathlib import Path

import pytest

from load.wrk import LoadError, run_wrk

ACCOUNT = """Running 2s test @ http://127.0.0.1:1/
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   523.55us    1.06ms  20.27ms   99%
    Req/Sec    35.40k     3.31k   39.55k    50.00%
  Latency Distribution
     50%  421.00us
     75%  462.00us
     90%  538.00us
     99%    3.25ms
  70510 requests in 2.00s, 8.88MB read
Requests/sec:  35221.12
Transfer/sec:      4.43MB
"""


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file whose text a program named wrk prints."""
    account = tmp_path / "account"
    program = tmp_path / "wrk"
    program.write_text(f"#!/bin/sh\ncat '{account}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return account


def test_its_numbers(pretend: Path) -> None:
    pretend.write_text(ACCOUNT)
    run = run_wrk("http://127.0.0.1:1/", 1, None)
    assert (run.requests, run.per_second, run.p50_ms, run.p99_ms) == (70510, 35221.12, 0.421, 3.25)


@pytest.mark.parametrize("trouble", ["  Non-2xx or 3xx responses: 3\n", "  Socket errors: connect 0, read 1\n"])
def test_answers_that_failed_are_no_measurement(pretend: Path, trouble: str) -> None:
    pretend.write_text(ACCOUNT + trouble)
    with pytest.raises(LoadError):
        run_wrk("http://127.0.0.1:1/", 1, None)


def test_no_account_is_an_error(pretend: Path) -> None:
    pretend.write_text("unable to connect\n")
    with pytest.raises(LoadError, match="unable to connect"):
        run_wrk("http://127.0.0.1:1/", 1, None)
