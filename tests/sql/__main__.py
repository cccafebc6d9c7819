"""Runs files of the corpus and says all that is wrong: ``python -m tests.sql [lobsters | FILE-OR-PART-OF-ITS-NAME …]``.
``--tiers`` before the names: only the number of queries in each tier, of PostgreSQL's files and MariaDB's.

``UPQUERY_CORPUS_DIRECTORY`` names a directory in which the service leaves its log.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.corpus import corpus_mariadb, corpus_upstream
from tests.fixtures.mariadb import start_mariadb
from tests.fixtures.postgres import discard_server, start_server
from tests.sql import tiers
from tests.sql.corpus_file import CORPUS, CORPUS_MARIADB, CorpusFile, corpus_files, read_corpus_file
from tests.sql.corpus_run import CorpusRun, Report, kept_table, table
from tests.sql.lobsters.writes import lobsters, schema


def chosen(parts: list[str], corpus: Path = CORPUS) -> list[CorpusFile]:
    """The files that are named, or all."""
    files = [Path(part) for part in parts if Path(part).is_file()]
    files = files or [file for file in corpus_files(corpus) if not parts or any(part in file.stem for part in parts)]
    return [read_corpus_file(file) for file in files]


def run(server: EmbeddedPostgres, directory: Path, arguments: list[str]) -> list[Report]:
    """Runs what is named, one after another."""
    site = arguments == ["lobsters"]
    reports: list[Report] = []
    with corpus_upstream(server, directory, "corpus", schema() if site else None) as (service, oracle):
        for file in [lobsters(1, 24), lobsters(2, 24, repaired=True)] if site else chosen(arguments):
            started = time.monotonic()
            corpus_run = CorpusRun(file, service, oracle)
            reports.append(corpus_run.run())
            say(f"{file.path.stem}: {time.monotonic() - started:.1f} s", *reports[-1].problems)
            if site:
                say(*kept_table(corpus_run.kept))
    return reports


def print_tiers(postgres: EmbeddedPostgres, directory: Path, parts: list[str]) -> None:
    """The table of tiers of the files that are named, on both databases."""
    mariadb = start_mariadb()
    try:
        with (
            corpus_upstream(postgres, directory / "postgres") as one,
            corpus_mariadb(mariadb, directory / "mariadb") as other,
        ):
            found = {
                "PostgreSQL": tiers.shapes(chosen(parts), *one),
                "MariaDB": tiers.shapes(chosen(parts, CORPUS_MARIADB), *other),
            }
    finally:
        mariadb.discard()
    say(*tiers.table(found))


def say(*lines: str) -> None:
    """Prints at once: a long run is watched."""
    for line in lines:
        print(line, flush=True)  # noqa: T201


def main(arguments: list[str]) -> int:
    """0 if nothing is wrong."""
    server = start_server()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(os.environ.get("UPQUERY_CORPUS_DIRECTORY", temporary))
        try:
            if arguments[:1] == ["--tiers"]:
                print_tiers(server, directory, arguments[1:])
                return 0
            reports = run(server, directory, arguments)
        finally:
            discard_server(server)
    say(*table(reports))
    return 1 if any(report.problems for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
