"""Runs a file of the corpus: a service over its upstream, every view read before and after every change, and compared.

*Invariants*: no expected rows are stored anywhere; what the upstream answers to the same SQL at the same state is
right. All reads of a view's keys but the first ones are of keys that were kept up to date, but for those that were
evicted.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from tests.fixtures.service import RunningService, until
from tests.sql.comparison import Answer, Row, difference, is_ordered, parse, without_limit
from tests.sql.corpus_file import Arguments, CorpusFile, CorpusView, Step
from tests.sql.upstream_oracle import Oracle

#: Reads of one request.
BATCH = 100
#: How likely a view is read after a step (after the last one all are), and how likely its keys are evicted before.
READ_SHARE, EVICT_SHARE = 0.33, 0.08
LIMIT_S = 30.0
#: What is put beside the SQL, by a view's ``keep``.
_PUT: dict[str | None, dict[str, str]] = {
    None: {},
    "full": {"materialization": "full"},
    "refresh": {"tier": "refresh"},
}
#: A file is given up when the service could not answer so often.
MOST_OUTAGES = 5


class Abandoned(Exception):
    """The service fails again and again: the rest of the file would only take time."""


@dataclass
class Report:
    """What came of a file."""

    file: str
    feature: str
    tier: str
    views: int = 0
    tiers: dict[str, int] = field(default_factory=dict)
    #: Of the incremental ones.
    full: int = 0
    reads: int = 0
    evictions: int = 0
    wrong_answers: list[str] = field(default_factory=list)
    #: Views in another tier than the file's, or not installed at all.
    other_tier: list[str] = field(default_factory=list)
    #: Everything else that did not go as the file says.
    failures: list[str] = field(default_factory=list)

    def count(self, tier: str) -> None:
        """One more view in `tier`, or in a state without one."""
        self.tiers[tier] = self.tiers.get(tier, 0) + 1

    @property
    def problems(self) -> list[str]:
        """All that is wrong, worst first."""
        return [*self.wrong_answers, *self.failures, *self.other_tier]


@dataclass(frozen=True, slots=True)
class Kept:
    """How a view is kept, and why not partially if it is not."""

    view: str
    tier: str
    materialization: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Read:
    view: CorpusView
    arguments: Arguments


class CorpusRun:
    """One file over a service and its upstream. *State*: `report`; `_installed`, the views that can be read."""

    def __init__(self, file: CorpusFile, service: RunningService, oracle: Oracle) -> None:
        self.report = Report(file.path.stem, file.feature, file.tier)
        self._file = file
        self._service = service
        self._oracle = oracle
        self._rng = Random(zlib.crc32(file.path.name.encode()))
        self._data = httpx.Client(base_url=service.http, timeout=LIMIT_S)
        self._admin = httpx.Client(base_url=service.admin, timeout=LIMIT_S)
        self._installed: list[CorpusView] = []
        self._states: dict[str, dict[str, Any]] = {}
        self._ttl = file.tier == "ttl"
        #: What the upstream answered before, by view and statement, of answers that may be old.
        self._earlier: dict[tuple[str, str], list[Answer]] = {}
        self._outages = 0
        #: How each installed view is kept.
        self.kept: list[Kept] = []

    def run(self) -> Report:
        """The whole file. Its views are dropped afterwards."""
        with self._data, self._admin:
            try:
                self._run()
            except Abandoned:
                self._fail(0, "given up: the service failed again and again")
            finally:
                self._drop()
        return self.report

    def _run(self) -> None:
        for step in self._file.setup:
            self._execute(step)
        self._install()
        self._compare([_Read(view, key) for view in self._installed for key in view.keys], "before")
        self._change()
        self._walk_pages()

    def _execute(self, step: Step) -> None:
        message = self._oracle.execute(step.sql)
        if step.error is None and message is not None:
            self._fail(step.line, f"the statement failed: {message.splitlines()[0]}")
        elif step.error is not None and (message is None or step.error not in message):
            self._fail(step.line, f"the statement should have failed with {step.error!r}: {message}")

    def _install(self) -> None:
        for view in self._file.views:
            response = self._admin.put(
                f"/v1/catalog/views/{view.name}", json={"sql": view.sql} | _PUT[view.options.keep]
            )
            if view.error is not None:
                self._check_refusal(view, response)
                continue
            self.report.views += 1
            if response.status_code in (200, 201, 202):
                self._installed.append(view)
            else:
                self.report.count("refused")
                self.report.other_tier.append(f"{self._at(view.line)} {view.name}: {_problem(response)}")
        if self._installed:
            until(self._all_built)
        for view in list(self._installed):
            self._check_tier(view)

    def _check_refusal(self, view: CorpusView, response: httpx.Response) -> None:
        assert view.error is not None
        code, text = view.error
        problem = response.json()
        if response.status_code < 400 or problem["code"] != code or text not in str(problem["detail"]):
            self._fail(view.line, f"{view.name} should have been refused with {code} {text!r}: {_problem(response)}")

    def _all_built(self) -> bool:
        listed = self._admin.get("/v1/catalog/views").json()["views"]
        self._states = {state["name"]: state for state in listed}
        return all(state["status"] != "building" for state in listed)

    def _check_tier(self, view: CorpusView) -> None:
        state = self._states[view.name]
        if state["status"] != "ready":
            self._installed.remove(view)
            self.report.count(state["status"])
            self.report.other_tier.append(f"{self._at(view.line)} {view.name}: {state['status']}: {state['reason']}")
            return
        self.report.count(state["tier"])
        self.kept.append(self._kept(view, state))
        self.report.full += state["tier"] == "incremental" and state["materialization"] == "full"
        if state["tier"] != self._file.tier and view.options.keep is None:
            self.report.other_tier.append(
                f"{self._at(view.line)} {view.name} is {state['tier']}, not {self._file.tier}: {state['reason']}"
            )

    def _kept(self, view: CorpusView, state: dict[str, Any]) -> Kept:
        materialization = state["materialization"] or "-"
        reason = state["reason"] or ""
        if state["tier"] == "incremental" and materialization == "full":
            reason = self._admin.get(f"/v1/catalog/views/{view.name}/plan").json()["reason"]
        return Kept(view.name, state["tier"], materialization, reason)

    def _change(self) -> None:
        for step in self._file.steps:
            self._execute(step)
            last = step is self._file.steps[-1]
            for view in self._installed:
                if self._rng.random() < EVICT_SHARE:
                    self._evict(view)
            wanted = [view for view in self._installed if last or self._ttl or self._rng.random() < READ_SHARE]
            self._compare([_Read(view, key) for view in wanted for key in view.keys], f"after line {step.line}")

    def _evict(self, view: CorpusView) -> None:
        """One key, or all that the view has."""
        body: dict[str, Any] = {"view": view.name}
        plain = [key for key in view.keys if key and all(isinstance(value, str) for value in key.values())]
        if plain and self._rng.random() < 0.7:
            body["keys"] = [self._rng.choice(plain)]
        response = self._admin.post("/v1/evict", json=body)
        if response.status_code == 200:
            self.report.evictions += 1
        else:
            self._fail(view.line, f"evicting {body}: {_problem(response)}")

    def _compare(self, reads: list[_Read], when: str) -> None:
        """All reads in batches; each batch is one request, so that it is at one version."""
        headers = {"Upquery-Min-Version": self._oracle.position(), "Prefer": "wait=20"}
        for start in range(0, len(reads), BATCH):
            self._compare_batch(reads[start : start + BATCH], headers, when)

    def _compare_batch(self, reads: list[_Read], headers: dict[str, str], when: str) -> None:
        body = {"reads": [{"view": read.view.name, "params": read.arguments} for read in reads]}
        response = self._data.post("/v1/read", json=body, headers=headers)
        if response.status_code != 200:
            if response.status_code == 503:
                until(lambda: self._admin.get("/readyz").status_code == 200)
            if len(reads) > 1:
                middle = len(reads) // 2
                self._compare_batch(reads[:middle], headers, when)
                self._compare_batch(reads[middle:], headers, when)
                return
            self._compare_failure(reads[0], response, when)
            return
        results = dict(parse(response.content))["results"]
        for read, result in zip(reads, results, strict=True):
            self._compare_rows(read, dict(result)["rows"], when)

    def _compare_failure(self, read: _Read, response: httpx.Response, when: str) -> None:
        """A read that fails is right where the upstream's fails, too."""
        self.report.reads += 1
        expected = self._oracle.answer(self._oracle.written(read.view.upstream_sql, read.arguments))
        if not isinstance(expected, str):
            self._fail(
                read.view.line, f"{read.view.name} {read.arguments} {when}: {_problem(response)}\n    {read.view.sql}"
            )
            self._outages += response.status_code in (503, 504)
            if self._outages > MOST_OUTAGES:
                raise Abandoned

    def _compare_rows(self, read: _Read, found: list[Row], when: str) -> None:
        self.report.reads += 1
        view, sql = read.view, self._oracle.written(read.view.upstream_sql, read.arguments)
        expected = self._oracle.answer(sql)
        if isinstance(expected, str):
            self._wrong(read, f"{len(found)} rows, where the upstream fails: {expected.strip()}", when)
            return
        unlimited = without_limit(sql) if view.options.ties else None
        everything = None if unlimited is None else self._oracle.answer(unlimited)
        assert not isinstance(everything, str), everything
        wrong = difference(view, found, expected, everything)
        if self._ttl:
            earlier = self._earlier.setdefault((view.name, sql), [])
            if wrong is not None and any(difference(view, found, answer) is None for answer in earlier):
                wrong = None
            earlier.append(expected)
        if wrong is not None:
            self._wrong(read, wrong, when)

    def _walk_pages(self) -> None:
        """The pages of a key, put together, are its rows; and what GET answers is what POST does."""
        headers = {"Upquery-Min-Version": self._oracle.position(), "Prefer": "wait=20"}
        for view in self._installed:
            for key in view.keys:
                if view.options.page is not None:
                    rows = [row for page in self._pages(view, key, headers) for row in page]
                    self._compare_rows(_Read(view, key), rows, f"in pages of {view.options.page}")
            plain = [key for key in view.keys if all(isinstance(value, str) for value in key.values())]
            if plain:
                response = self._data.get(f"/v1/views/{view.name}", params=plain[0], headers=headers)
                if response.status_code == 200:
                    self._compare_rows(_Read(view, plain[0]), dict(parse(response.content))["rows"], "by GET")
                else:
                    self._compare_failure(_Read(view, plain[0]), response, "by GET")

    def _pages(self, view: CorpusView, key: Arguments, headers: dict[str, str]) -> Iterator[list[Row]]:
        assert is_ordered(view.sql), f"{view.name} has pages and no order"
        after = None
        for _ in range(1000):
            item = {"view": view.name, "params": key, "limit": view.options.page, "after": after}
            response = self._data.post("/v1/read", json={"reads": [item]}, headers=headers)
            if response.status_code != 200:
                self._fail(view.line, f"{view.name} {key}: a page: {_problem(response)}")
                return
            result = dict(dict(parse(response.content))["results"][0])
            yield result["rows"]
            after = result["next"]
            if after is None:
                return
        self._fail(view.line, f"{view.name} {key}: its pages do not end")

    def _drop(self) -> None:
        for view in reversed(self._file.views):
            self._admin.delete(f"/v1/catalog/views/{view.name}")

    def _at(self, line: int) -> str:
        return f"{self._file.path.name}:{line}"

    def _fail(self, line: int, text: str) -> None:
        self.report.failures.append(f"{self._at(line)} {text}")

    def _wrong(self, read: _Read, text: str, when: str) -> None:
        given = " ".join(f"{name}={value}" for name, value in read.arguments.items())
        tier = self._states[read.view.name]["tier"]
        self.report.wrong_answers.append(
            f"{self._at(read.view.line)} {read.view.name} ({tier}) {given} {when}: {text}\n    {read.view.sql}"
        )


def _problem(response: httpx.Response) -> str:
    try:
        problem = response.json()
    except ValueError:
        return f"{response.status_code} {response.text[:200]}"
    return f"{response.status_code} {problem.get('code')}: {problem.get('detail')}"


def table(reports: list[Report]) -> list[str]:
    """Per feature: queries, how they were kept, how often they were read, and what was wrong."""
    columns = ("incremental", "refresh", "ttl")
    lines = [f"{'feature':<44}{'queries':>8}" + "".join(f"{c:>13}" for c in columns) + f"{'full':>6}"
             f"{'other':>7}{'reads':>8}{'evicted':>9}{'wrong':>7}"]  # fmt: skip
    for report in [*reports, _total(reports)]:
        other = sum(n for tier, n in report.tiers.items() if tier not in columns)
        lines.append(
            f"{report.feature:<44}{report.views:>8}"
            + "".join(f"{report.tiers.get(c, 0):>13}" for c in columns)
            + f"{report.full:>6}{other:>7}{report.reads:>8}{report.evictions:>9}{len(report.wrong_answers):>7}"
        )
    return lines


def _total(reports: list[Report]) -> Report:
    total = Report("", "all", "")
    for report in reports:
        total.views += report.views
        for tier, number in report.tiers.items():
            total.tiers[tier] = total.tiers.get(tier, 0) + number
        total.full += report.full
        total.reads += report.reads
        total.evictions += report.evictions
        total.wrong_answers += report.wrong_answers
    return total


def kept_table(views: list[Kept]) -> list[str]:
    """How each view is kept."""
    return [
        f"{'view':<32}{'tier':<13}{'kept':<9}reason",
        *(f"{kept.view:<32}{kept.tier:<13}{kept.materialization:<9}{kept.reason}" for kept in views),
        f"{len(views)} views, {sum(kept.materialization == 'partial' for kept in views)} of them partial",
    ]
