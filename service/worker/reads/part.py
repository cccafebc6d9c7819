"""Parts of batches: the requests of a gateway to each shard, and the responses.

A gateway splits a batch by the keys' homes. Each shard receives its part as a batch of its own, ``POST /v1/read`` or
``POST /v1/views/{view}/query`` with the header ``Upquery-Part: 1``, and returns with the answers the interval of
versions in which they are exact, so that the gateway can find a version common to all parts
(`service.sharding.common_version`). The response has the content type ``application/vnd.upquery.part``: one line of
JSON with the members of `PartHead` (readers ignore others), then the results' bytes as in a batch's response,
without separators; `lengths` has the length of each. All else is as for any batch: headers, minimum versions,
rights, problems.

*Invariants*: if `exact`, all results are the answers from `since` to `position` in the log of `server`: at every
position from `one_by_one` on, and at milestones (`dataflow.milestones`). If not, they are exact at no known version,
and are combined with no others. Results of one view are not combined with those of another definition of it
(`views`): while a view is replaced, shards have the old one or the new one.

The format is shared by processes of one version and the next; it is not in the OpenAPI document. Not here: reading
(`batches`, `batch_hits`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import orjson

from dataflow.types import Position
from service.sharding.common_version import Exact
from service.web.messages import Headers, Reply
from service.worker.reads.reads import Answers, ViewRoute
from service.worker.reads.view_reads import answer_headers, cache_control_of

#: Header of a request for a part.
PART = (b"upquery-part", b"1")
MEDIA_TYPE = b"application/vnd.upquery.part"
_CONTENT_PART = (b"content-type", MEDIA_TYPE)


@dataclass(frozen=True, slots=True)
class PartHead:
    """Description of a part's results. `at_ms`, `hit`, `source`: as of `Answers`
    (`service.protocol.reads.AnswerSource`); `views`: the definitions of the views that were read, by name
    (`ViewInfo.definition`)."""

    since: Position
    position: Position
    server: str
    one_by_one: Position
    at_ms: int
    hit: bool
    source: str
    lengths: list[int]
    cache_control: str
    exact: bool
    views: dict[str, str]


_MEMBERS = tuple(field.name for field in fields(PartHead))


def is_part(headers: Headers) -> bool:
    """Return whether a request is for a part."""
    return PART in headers


def part_reply(
    found: Exact[Answers], results: bytes, lengths: list[int], views: Sequence[ViewRoute], started: int
) -> Reply:
    """Return the response with these joined results of these views; `found` supplies only their description. Without
    a known server, positions have no meaning."""
    answers, cache_control = found.answers, cache_control_of(views)
    head = {
        "since": found.since,
        "position": found.until,
        "server": found.server,
        "one_by_one": found.one_by_one,
        "at_ms": answers.at_ms,
        "hit": answers.hit,
        "source": answers.source,
        "lengths": lengths,
        "cache_control": cache_control[1].decode(),
        "exact": bool(found.server),
        "views": {view.info.name: view.info.definition for view in views},
    }
    body = b"".join((orjson.dumps(head), b"\n", results))
    length = (b"content-length", b"%d" % len(body))
    return Reply(200, [*answer_headers(answers, started), cache_control, _CONTENT_PART, length], body)


def read_part(body: bytes) -> tuple[PartHead, list[bytes]]:
    """Return a part's description and results. Raises ValueError if the body is not a part."""
    line, _, results = body.partition(b"\n")
    members = orjson.loads(line)
    try:
        head = PartHead(*[members[name] for name in _MEMBERS])
    except (KeyError, TypeError) as error:
        raise ValueError("not a part") from error
    if sum(head.lengths) != len(results):
        raise ValueError("a truncated part")
    each, at = [], 0
    for length in head.lengths:
        each.append(results[at : at + length])
        at += length
    return head, each
