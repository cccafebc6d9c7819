"""Runs files of the corpus and says all that is wrong: ``python -m tests.sql [FILE-OR-PART-OF-ITS-NAME …]``.

``UPQUERY_CORPUS_DIRECTORY`` names a directory in which the service leaves its log.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.fixtures.corpus import corpus_upstream
from tests.fixtures.postgres import discard_server, start_server
from tests.sql.corpus_file import corpus_files, read_corpus_file
from tests.sql.corpus_run import CorpusRun, Report, table


def chosen(parts: list[str]) -> list[Path]:
    """The files that are named, or all."""
    files = [Path(part) for part in parts if Path(part).is_file()]
    return files or [file for file in corpus_files() if not parts or any(part in file.stem for part in parts)]


def main(arguments: list[str]) -> int:
    """0 if nothing is wrong."""
    reports: list[Report] = []
    server = start_server()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(os.environ.get("UPQUERY_CORPUS_DIRECTORY", temporary))
        try:
            with corpus_upstream(server, directory) as (service, oracle):
                for path in chosen(arguments):
                    started = time.monotonic()
                    report = CorpusRun(read_corpus_file(path), service, oracle).run()
                    reports.append(report)
                    print(f"{path.stem}: {time.monotonic() - started:.1f} s", flush=True)  # noqa: T201
                    print("\n".join(report.problems), flush=True)  # noqa: T201
        finally:
            discard_server(server)
    print("\n".join(table(reports)))  # noqa: T201
    return 1 if any(report.problems for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
