"""Runs a file of the corpus: a service over its upstream, every view read before and after every change, and compared.

*Invariants*: no expected rows are stored anywhere; what the upstream answers to the same SQL at the same state is
right. All reads of a view's keys but the first ones are of keys that were kept up to date, but for those that were
evicted. Requests are made over several connections at once, and all of them are answered before the next change.
"""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

import httpx

from tests.fixtures.seeds import VARIABLE, day_seed, run_seed
from tests.fixtures.service import RunningService, until
from tests.sql.comparison import Answer, Row, difference, is_ordered, parse, without_limit
from tests.sql.corpus_file import Arguments, CorpusFile, CorpusView, Step
from tests.sql.upstream_oracle import Oracle

#: Reads of one request.
BATCH = 100
#: Requests under way at once.
CONNECTIONS = 4
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
    """Results of a file."""

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
        """All that is wrong, worst first, and how it is repeated."""
        found = [*self.wrong_answers, *self.failures, *self.other_tier]
        return [*found, self.seeded] if found else []

    @property
    def seeded(self) -> str:
        """How the same random choices are made again."""
        return f"{self.file}: {VARIABLE}={run_seed()}"


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


class ThreadClients:
    """HTTP clients of one thread each: a shared one closes a connection that idled too long although another thread
    has just been given it."""

    def __init__(self) -> None:
        self._clients: dict[tuple[int, str], httpx.Client] = {}

    def to(self, url: str) -> httpx.Client:
        """The calling thread's client of a server."""
        at = (threading.get_ident(), url)
        if at not in self._clients:
            self._clients[at] = httpx.Client(base_url=url, timeout=LIMIT_S)
        return self._clients[at]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()


class CorpusRun:
    """One file over a service and its upstream. Its random choices are those of the day (`tests.fixtures.seeds`).

    *State*: `report`; `_installed`, the views that can be read; `_written`, what the upstream is asked, by view and
    arguments; `_expected`, what it answers, by statement, since the last change.
    """

    def __init__(self, file: CorpusFile, service: RunningService, oracle: Oracle) -> None:
        self.report = Report(file.path.stem, file.feature, file.tier)
        self._file = file
        self._service = service
        self._oracle = oracle
        self._rng = Random(day_seed(file.path.name))
        self._connections = ThreadPoolExecutor(CONNECTIONS)
        self._clients = ThreadClients()
        self._installed: list[CorpusView] = []
        self._written: dict[tuple[object, ...], str] = {}
        self._expected: dict[str, Answer | str] = {}
        self._states: dict[str, dict[str, Any]] = {}
        self._ttl = file.tier == "ttl"
        #: What the upstream answered before, by view and statement, of answers that may be old.
        self._earlier: dict[tuple[str, str], list[Answer]] = {}
        self._outages = 0
        #: How each installed view is kept.
        self.kept: list[Kept] = []

    def run(self) -> Report:
        """The whole file. Its views are dropped afterwards."""
        return self._reported(self._run)

    def put(self) -> Report:
        """The views' tiers only: they are put and dropped."""
        return self._reported(self._prepare)

    def _reported(self, work: Callable[[], None]) -> Report:
        with self._clients, self._connections:
            try:
                work()
            except Abandoned:
                self._fail(0, "given up: the service failed again and again")
            finally:
                self._drop()
        return self.report

    @property
    def _data(self) -> httpx.Client:
        return self._clients.to(self._service.http)

    @property
    def _admin(self) -> httpx.Client:
        return self._clients.to(self._service.admin)

    def _prepare(self) -> None:
        for step in self._file.setup:
            self._execute(step)
        self._install()

    def _run(self) -> None:
        self._prepare()
        self._compare([_Read(view, key) for view in self._installed for key in view.keys], "before")
        self._change()
        self._walk_pages()

    def _execute(self, step: Step) -> None:
        self._expected.clear()
        message = self._oracle.execute(step.sql)
        if step.error is None and message is not None:
            self._fail(step.line, f"the statement failed: {message.splitlines()[0]}")
        elif step.error is not None and (message is None or step.error not in message):
            self._fail(step.line, f"the statement should have failed with {step.error!r}: {message}")

    def _install(self) -> None:
        for views in self._independent():
            for view, response in zip(views, self._connections.map(self._put, views), strict=True):
                self._check_put(view, response)
        if self._installed:
            until(self._all_built)
        for view in list(self._installed):
            self._check_tier(view)
        self.kept = list(self._connections.map(self._kept, self._installed))

    def _independent(self) -> list[list[CorpusView]]:
        """The views in their order, in groups of such that do not name each other: these can be put at once."""
        groups: list[list[CorpusView]] = [[]]
        names: set[str] = set()
        words: set[str] = set()
        for view in self._file.views:
            own = set(re.findall(r"\w+", view.sql))
            if view.name in words or not names.isdisjoint(own):
                groups.append([])
                names, words = set(), set()
            groups[-1].append(view)
            names.add(view.name)
            words |= own
        return groups

    def _put(self, view: CorpusView) -> httpx.Response:
        return self._admin.put(f"/v1/catalog/views/{view.name}", json={"sql": view.sql} | _PUT[view.options.keep])

    def _check_put(self, view: CorpusView, response: httpx.Response) -> None:
        if view.error is not None:
            self._check_refusal(view, response)
            return
        self.report.views += 1
        if response.status_code in (200, 201, 202):
            self._installed.append(view)
        else:
            self.report.count("refused")
            self.report.other_tier.append(f"{self._at(view.line)} {view.name}: {_problem(response)}")

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
        self.report.full += state["tier"] == "incremental" and state["materialization"] == "full"
        if state["tier"] != self._file.tier and view.options.keep is None:
            self.report.other_tier.append(
                f"{self._at(view.line)} {view.name} is {state['tier']}, not {self._file.tier}: {state['reason']}"
            )

    def _kept(self, view: CorpusView) -> Kept:
        state = self._states[view.name]
        materialization = state["materialization"] or "-"
        reason = state["reason"] or ""
        if state["tier"] == "incremental" and materialization == "full":
            reason = self._admin.get(f"/v1/catalog/views/{view.name}/plan").json()["reason"]
        return Kept(view.name, state["tier"], materialization, reason)

    def _change(self) -> None:
        for step in self._file.steps:
            self._execute(step)
            last = step is self._file.steps[-1]
            self._evict()
            wanted = [view for view in self._installed if last or self._ttl or self._rng.random() < READ_SHARE]
            self._compare([_Read(view, key) for view in wanted for key in view.keys], f"after line {step.line}")

    def _evict(self) -> None:
        """Evict one key, or all, of some views."""
        chosen = [(view, self._evicted(view)) for view in self._installed if self._rng.random() < EVICT_SHARE]
        responses = self._connections.map(lambda each: self._admin.post("/v1/evict", json=each[1]), chosen)
        for (view, body), response in zip(chosen, responses, strict=True):
            if response.status_code == 200:
                self.report.evictions += 1
            else:
                self._fail(view.line, f"evicting {body}: {_problem(response)}")

    def _evicted(self, view: CorpusView) -> dict[str, Any]:
        plain = [key for key in _plain(view) if key]
        if plain and self._rng.random() < 0.7:
            return {"view": view.name, "keys": [self._rng.choice(plain)]}
        return {"view": view.name}

    def _compare(self, reads: list[_Read], when: str) -> None:
        """All reads in batches; each batch is one request, so that it is at one version. The upstream answers while
        requests are under way."""
        headers = self._headers()
        batches = [reads[start : start + BATCH] for start in range(0, len(reads), BATCH)]
        responses = [self._connections.submit(self._post, batch, headers) for batch in batches]
        for batch, response in zip(batches, responses, strict=True):
            self._compare_batch(batch, response, headers, when)

    def _headers(self) -> dict[str, str]:
        """Headers of reads that see everything committed."""
        return {"Upquery-Min-Version": self._oracle.position(), "Prefer": "wait=20"}

    def _post(self, reads: list[_Read], headers: dict[str, str]) -> httpx.Response:
        body = {"reads": [{"view": read.view.name, "params": read.arguments} for read in reads]}
        return self._data.post("/v1/read", json=body, headers=headers)

    def _compare_batch(
        self, reads: list[_Read], answer: "Future[httpx.Response]", headers: dict[str, str], when: str
    ) -> None:
        if not self._ttl:
            for read in reads:
                self._answer(self._sql(read))
        response = answer.result()
        if response.status_code != 200:
            if response.status_code == 503:
                until(lambda: self._admin.get("/readyz").status_code == 200)
                if response.json()["code"] == "view_building":
                    # It was evicted, and is kept whole: it is read again when it is there.
                    until(self._all_built)
                    self._compare_batch(reads, self._connections.submit(self._post, reads, headers), headers, when)
                    return
            if len(reads) > 1:
                middle = len(reads) // 2
                for half in (reads[:middle], reads[middle:]):
                    self._compare_batch(half, self._connections.submit(self._post, half, headers), headers, when)
                return
            self._compare_failure(reads[0], response, when)
            return
        results = dict(parse(response.content))["results"]
        for read, result in zip(reads, results, strict=True):
            self._compare_rows(read, dict(result)["rows"], when)

    def _sql(self, read: _Read) -> str:
        """Return the upstream's statement. It is written once: MariaDB's oracle parses it."""
        key = (read.view.name, *read.arguments.items())
        if key not in self._written:
            self._written[key] = self._oracle.written(read.view.upstream_sql, read.arguments)
        return self._written[key]

    def _answer(self, sql: str) -> Answer | str:
        """Return the upstream's answer. It is computed once until the next change, except where answers depend on the
        time."""
        if self._ttl:
            return self._oracle.answer(sql)
        if sql not in self._expected:
            self._expected[sql] = self._oracle.answer(sql)
        return self._expected[sql]

    def _compare_failure(self, read: _Read, response: httpx.Response, when: str) -> None:
        """A read that fails is right where the upstream's fails, too."""
        self.report.reads += 1
        expected = self._answer(self._sql(read))
        if not isinstance(expected, str):
            self._fail(
                read.view.line, f"{read.view.name} {read.arguments} {when}: {_problem(response)}\n    {read.view.sql}"
            )
            self._outages += response.status_code in (503, 504)
            if self._outages > MOST_OUTAGES:
                raise Abandoned

    def _compare_rows(self, read: _Read, found: list[Row], when: str) -> None:
        self.report.reads += 1
        view, sql = read.view, self._sql(read)
        expected = self._answer(sql)
        if isinstance(expected, str):
            self._wrong(read, f"{len(found)} rows, where the upstream fails: {expected.strip()}", when)
            return
        unlimited = without_limit(sql) if view.options.ties else None
        everything = None if unlimited is None else self._answer(unlimited)
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
        headers = self._headers()
        paged = [_Read(view, key) for view in self._installed if view.options.page is not None for key in view.keys]
        found = self._connections.map(lambda read: self._all_pages(read, headers), paged)
        for read, rows in zip(paged, found, strict=True):
            self._compare_rows(read, rows, f"in pages of {read.view.options.page}")
        plain = [_Read(view, key) for view in self._installed for key in _plain(view)[:1]]
        responses = self._connections.map(lambda read: self._get(read, headers), plain)
        for read, response in zip(plain, responses, strict=True):
            if response.status_code == 200:
                self._compare_rows(read, dict(parse(response.content))["rows"], "by GET")
            else:
                self._compare_failure(read, response, "by GET")

    def _get(self, read: _Read, headers: dict[str, str]) -> httpx.Response:
        return self._data.get(f"/v1/views/{read.view.name}", params=read.arguments, headers=headers)

    def _all_pages(self, read: _Read, headers: dict[str, str]) -> list[Row]:
        return [row for page in self._pages(read.view, read.arguments, headers) for row in page]

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
        for views in reversed(self._independent()):
            responses = self._connections.map(lambda view: self._admin.delete(f"/v1/catalog/views/{view.name}"), views)
            for view, response in zip(views, responses, strict=True):
                if response.status_code not in (204, 404):
                    self._fail(view.line, f"dropping {view.name}: {_problem(response)}")

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


def _plain(view: CorpusView) -> list[Arguments]:
    """The keys without NULLs and lists."""
    return [key for key in view.keys if all(isinstance(value, str) for value in key.values())]


def _problem(response: httpx.Response) -> str:
    try:
        problem = response.json()
    except ValueError:
        return f"{response.status_code} {response.text[:200]}"
    return f"{response.status_code} {problem.get('code')}: {problem.get('detail')}"


def table(reports: list[Report]) -> list[str]:
    """Per feature: queries, how they were kept, how often they were read, and what was wrong."""
    columns = ("incremental", "refresh", "ttl")
    lines = [
        f"{'feature':<44}{'queries':>8}" + "".join(f"{c:>13}" for c in columns) + f"{'full':>6}"
        f"{'other':>7}{'reads':>8}{'evicted':>9}{'wrong':>7}"
    ]
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
