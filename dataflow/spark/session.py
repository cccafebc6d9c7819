"""A Spark session: on this machine alone unless another master is configured.

*Invariants*: with a local master nothing listens on anything but loopback, whatever else is configured; Spark's own
log is quiet unless asked for; of Java's stack traces nothing reaches users.

Not here: Java (`java`), what is computed with the session.
"""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from dataflow.spark.java import find_java
from dataflow.spark.problems import RequirementMissing, SparkProblem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What is needed of each package, and what for.
_NEEDED = {
    "pyspark": ((4, 1), "Spark itself"),
    "pyarrow": ((17, 0), "how Spark's rows reach Python"),
}
_INSTALL = "Install the extra: pip install 'upquery[spark]'."
#: How often a task is tried. (Spark's local masters try once by default.)
ATTEMPTS = 4
_LOCAL = re.compile(r"local(?:\[([0-9]+|\*)\])?")

#: Of every session.
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A reader in Python sees filters only with this (Spark 4.1).
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.task.maxFailures": str(ATTEMPTS),
}
#: Of a session on this machine: not to be configured away.
_LOOPBACK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Others who work on this machine can connect to loopback, too.
    "spark.authenticate": "true",
}
_LOG = """rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
"""


def check_packages() -> None:
    """Raises RequirementMissing if a package that Spark needs is not there, or too old."""
    for package, (least, purpose) in _NEEDED.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            raise RequirementMissing(
                f"{package}_missing", f"{package} is not installed; it is {purpose}.", _INSTALL
            ) from None
        numbers = tuple(int(n) for n in re.findall(r"\d+", found)[:2])
        if numbers < least:
            wanted = ".".join(map(str, least))
            raise RequirementMissing(f"{package}_too_old", f"{package} {wanted} is needed; {found} is there.", _INSTALL)


def session(
    app: str,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    memory: str = "1g",
    log_level: str = "OFF",
) -> "SparkSession":
    """The session of this process, made if there is none. `memory` is the JVM's heap, as Spark writes it; `conf` are
    further settings of Spark's. Under ``spark-submit`` the master and the memory are its arguments.

    Raises RequirementMissing (never here), SparkProblem (Spark did not start).
    """
    check_packages()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    settings = {**_SETTINGS, **(conf or {})}
    if not submitted:
        _prepare(settings, master, memory, log_level)
    elif "spark.submit.deployMode" not in settings:
        settings = {k: v for k, v in settings.items() if not k.startswith("spark.driver.")}
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).config(map=dict(settings))
    if not submitted:
        builder = builder.master(with_attempts(master))
    try:
        made = builder.getOrCreate()
        made.sparkContext.setLogLevel(log_level)
    except (PySparkException, RuntimeError, OSError) as problem:
        raise SparkProblem(
            "spark_failed",
            f"Spark did not start: {_first_line(problem)}",
            "Its own log says more with a log level of WARN. Is there memory for its heap?",
            retryable=True,
        ) from problem
    return made


def with_attempts(master: str) -> str:
    """A local master that tries tasks more than once; any other as it is."""
    found = _LOCAL.fullmatch(master)
    return f"local[{found[1] or 1},{ATTEMPTS}]" if found else master


def is_local(master: str) -> bool:
    """Return whether everything runs on this machine, in one JVM."""
    return master.startswith("local") and not master.startswith("local-cluster")


def cores(master: str) -> int:
    """How many tasks run at a time; of other masters than local ones a guess."""
    if master == "local":
        return 1
    found = re.match(r"local\[([0-9]+)", master)
    return int(found[1]) if found else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


def java_process() -> subprocess.Popen[bytes] | None:
    """The Java that this process has started, if it has."""
    # Asked before Spark was asked for, too, and from a signal's handler: nothing is imported for it.
    core = sys.modules.get("pyspark.core.context")
    gateway = getattr(getattr(core, "SparkContext", None), "_gateway", None)
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    return process


def _prepare(settings: dict[str, str], master: str, memory: str, log_level: str) -> None:
    """The environment and the settings that a JVM of our own begins with."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    # Tasks are to run with this Python, and to find this package where it was found here.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    root = str(Path(__file__).resolve().parents[2])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, known)])
    settings.setdefault("spark.driver.memory", memory)
    settings.setdefault("spark.sql.warehouse.dir", str(Path(tempfile.gettempdir()) / "upquery-no-warehouse"))
    if is_local(master):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        settings.update(_LOOPBACK)
        settings.setdefault("spark.sql.shuffle.partitions", str(2 * cores(master)))
    settings.setdefault("spark.log.level", log_level)
    option = f"-Dlog4j.configurationFile={_log_file(log_level)}"
    given = settings.get("spark.driver.extraJavaOptions", "")
    if "log4j" not in given:
        settings["spark.driver.extraJavaOptions"] = f"{given} {option}".strip()


def _log_file(level: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="upquery-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "log4j2.properties"
    file.write_text(_LOG.format(level=level), encoding="utf-8")
    return file


def _first_line(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    return lines[0] if lines else type(problem).__name__


__all__ = ["ATTEMPTS", "check_packages", "cores", "is_local", "java_process", "session", "with_attempts"]
