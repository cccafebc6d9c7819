"""Java starts with an archive of its classes, and as well without one that is of no use."""

import subprocess
from pathlib import Path

import pytest

from tests.fixtures import class_archives
from tests.fixtures.class_archives import java_home, make, options

pytest.importorskip("pyspark")

pytestmark = pytest.mark.spark

LIMIT_S = 60.0
NAME, CLASSES = "launcher", "1"


def launched(*java: str) -> tuple[str, str]:
    """Return the standard output and standard error of a small program of Spark's."""
    home = java_home()
    assert home is not None
    jars = Path(class_archives.spark_classes().split(" ")[0])
    done = subprocess.run(
        [
            str(home / "bin" / "java"),
            *java,
            "-cp",
            f"{jars}/*",
            "org.apache.spark.launcher.Main",
            "org.apache.spark.deploy.SparkSubmit",
            "--version",
        ],
        env={"SPARK_HOME": str(jars.parent), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return done.stdout, done.stderr


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if java_home() is None:
        pytest.skip("needs Java on the path (Debian: apt install default-jre-headless)")
    made = make(NAME, CLASSES, lambda: launched(*options(NAME, CLASSES)) and None)
    if made is None:
        pytest.skip("this Java has no archive of its own classes, to which others could be added")
    return made


def test_an_archive_is_made_once_and_used(archive: Path) -> None:
    plain = launched()
    assert any(str(archive) in option for option in options(NAME, CLASSES))
    assert launched(*options(NAME, CLASSES)) == plain
    loaded, _ = launched(f"-XX:SharedArchiveFile={archive}", "-Xlog:class+load")
    assert "org.apache.spark.launcher.Main source: shared objects file (top)" in loaded
    assert make(NAME, CLASSES, pytest.fail) == archive


def test_one_that_is_of_no_use_does_no_harm(archive: Path) -> None:
    """Java itself would crash with one that is cut off."""
    plain = launched()
    length = archive.stat().st_size
    assert options(NAME, "2") == ("-Xshare:auto",)
    archive.chmod(0o600)
    archive.write_bytes(bytes(length))
    assert len(options(NAME, CLASSES)) == 3
    assert launched(*options(NAME, CLASSES)) == plain
    with archive.open("r+b") as file:
        file.truncate(length // 2)
    assert options(NAME, CLASSES) == ("-Xshare:auto",)
