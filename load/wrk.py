"""Closed-loop HTTP load from wrk, on a core of its own."""

import re
import subprocess
from dataclasses import dataclass

from load.programs import WRK, require

CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class WrkRun:
    """Results of one run of wrk."""

    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float


class LoadError(Exception):
    """Answers were missing or not 200; the message has wrk's account."""


def run_wrk(url: str, seconds: int, core: int | None) -> WrkRun:
    """Read `url` over and over for `seconds`. Raises `LoadError` if any answer was not a success.

    wrk takes whole seconds only.
    """
    wrk = require(WRK)
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    command = [*pinned, wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30, check=False)
    if done.returncode != 0 or "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise LoadError(f"wrk on {url}:\n{done.stdout}{done.stderr}")
    return WrkRun(
        requests=int(_find(r"(\d+) requests in", done.stdout)),
        per_second=float(_find(r"Requests/sec:\s+([\d.]+)", done.stdout)),
        p50_ms=_milliseconds(_find(r"^ +50% +(\S+)$", done.stdout)),
        p99_ms=_milliseconds(_find(r"^ +99% +(\S+)$", done.stdout)),
    )


def _find(pattern: str, text: str) -> str:
    if match := re.search(pattern, text, re.MULTILINE):
        return match[1]
    raise LoadError(f"wrk printed no {pattern}:\n{text}")


def _milliseconds(duration: str) -> float:
    match = re.fullmatch(r"([\d.]+)(us|ms|s|m)", duration)
    if match is None:
        raise LoadError(f"wrk printed {duration!r} for a duration")
    value, unit = match.groups()
    return float(value) * {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}[unit]
