"""A file of the corpus, asked as SQL that names no view (``POST /v1/query``): with constants, or with parameters.

Its views are there, so many queries mean one; every answer is compared as that of a view is.
"""

from collections import Counter

import httpx

from tests.fixtures.service import RunningService
from tests.sql.comparison import parse
from tests.sql.corpus_file import CorpusFile, CorpusView
from tests.sql.corpus_run import CorpusRun, _Read
from tests.sql.upstream_oracle import Oracle


class AskedRun(CorpusRun):
    """*State*: `answered`, how many queries had an answer from a view, and how many from the upstream."""

    def __init__(self, file: CorpusFile, service: RunningService, oracle: Oracle) -> None:
        super().__init__(file, service, oracle)
        self.answered: Counter[str] = Counter()

    def _compare(self, reads: list[_Read], when: str) -> None:
        headers = self._headers()
        responses = [self._connections.submit(self._ask, *read, headers) for read in enumerate(reads)]
        for read, answer in zip(reads, responses, strict=True):
            self._answer(self._sql(read))
            response = answer.result()
            if response.status_code != 200:
                self._compare_failure(read, response, when)
                continue
            self.answered["view" if "upquery-view" in response.headers else "upstream"] += 1
            self._compare_rows(read, dict(parse(response.content))["rows"], when)

    def _ask(self, number: int, read: _Read, headers: dict[str, str]) -> httpx.Response:
        """Every second query with constants, the others with parameters."""
        body = {"sql": read.view.upstream_sql, "params": read.arguments}
        if number % 2 == 0:
            body = {"sql": self._sql(read), "params": {}}
        return self._data.post("/v1/query", json=body, headers=headers)

    def _walk_pages(self) -> None:
        """A query has none."""

    def _check_refusal(self, view: CorpusView, response: object) -> None:
        """Ignore refusals, which other tests check."""
