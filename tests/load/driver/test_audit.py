"""Answers of two sides, compared."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import orjson
import pytest

from load.driver.audit import AuditError, audit
from load.sides.side import Side


@dataclass
class Fixed:
    """A side whose rows are given by view; an unknown view is a 404."""

    rows: dict[str, list[Any]]
    asked: list[int] = field(default_factory=list)

    def answer(self, body: bytes) -> tuple[int, bytes]:
        views = [read["view"] for read in orjson.loads(body)["reads"]]
        self.asked.append(len(views))
        if not self.rows.keys() >= set(views):
            return 404, b"no such view"
        return 200, orjson.dumps({"results": [{"rows": self.rows[view]} for view in views]})


@contextmanager
def serving(fixed: Fixed) -> Iterator[Side]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            status, body = fixed.answer(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        # How often it looks whether it is to end: by default, each half second.
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield Side("fixed", url, url, list, int, int)
        finally:
            server.shutdown()
            thread.join()


A, B = {"id": 1, "votes": 3}, {"id": 2, "votes": 5}
TRUTH = Fixed({"bag": [A, B, B], "sorted": [A, B]})


def compare(rows: dict[str, list[Any]]) -> tuple[int, int, tuple[str, ...]]:
    with serving(Fixed(rows)) as side, serving(TRUTH) as truth:
        result = audit(side, truth, [("bag", {"id": 1}), ("sorted", {})], ordered={"sorted"})
        return result.compared, result.different, result.examples


def test_rows_are_a_bag_unless_the_view_is_ordered() -> None:
    assert compare({"bag": [B, A, {"votes": 5, "id": 2}], "sorted": [A, B]}) == (2, 0, ())
    compared, different, examples = compare({"bag": [B, A, B], "sorted": [B, A]})
    assert (compared, different) == (2, 1)
    assert examples[0].startswith("sorted {}: ")


def test_how_often_a_row_is_there_counts() -> None:
    assert compare({"bag": [A, B], "sorted": [A, B]})[1] == 1
    assert compare({"bag": [A, A, B], "sorted": [A, {"id": 2, "votes": 6}]})[1] == 2


def test_a_side_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(AuditError, match="fixed answered 404: no such view"):
        compare({"bag": []})


def test_reads_are_asked_in_portions() -> None:
    one, other = Fixed({"v": [A]}), Fixed({"v": [A]})
    with serving(one) as side, serving(other) as truth:
        assert audit(side, truth, [("v", {"id": n}) for n in range(25)], at_once=10).compared == 25
    assert one.asked == other.asked == [10, 10, 5]
