"""Keys that a request reads, and the sizes of their answers, for the three ways to read of `load.driver.visit`.

A parameter that is a list makes a key of each of its members, as it does in the service.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson

from load.driver.visit import READS, HttpCall, HttpReply

_VIEWS = "/v1/views/"


class KeyRead(NamedTuple):
    """One key that was read; `answer_bytes`: of its rows."""

    view: str
    key: str
    answer_bytes: int


def keys_read(call: HttpCall, reply: HttpReply) -> Iterator[KeyRead]:
    """Keys that a request reads; writes and failed requests read none."""
    if call.server != READS or reply.status != 200:
        return
    head, _, body = call.request.partition(b"\r\n\r\n")
    target = urlsplit(head.split(b" ", 2)[1].decode())
    if head.startswith(b"GET "):
        yield KeyRead(_view(target.path), _text(dict(parse_qsl(target.query))), len(reply.body))
        return
    asked = orjson.loads(body)
    if target.path == "/v1/read":
        reads = [(read["view"], read["params"]) for read in asked["reads"]]
    else:
        reads = [(_view(target.path), key) for key in asked["keys"]]
    for (view, parameters), answer_bytes in zip(reads, _sizes(reply), strict=True):
        keys = [_text(key) for key in _members(parameters)]
        for key in keys:
            yield KeyRead(view, key, answer_bytes // len(keys))


def _view(path: str) -> str:
    return unquote(path.removeprefix(_VIEWS).removesuffix("/query"))


def _sizes(reply: HttpReply) -> Sequence[int]:
    return [len(orjson.dumps(result["rows"])) for result in orjson.loads(reply.body)["results"]]


def _members(parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The keys that lists stand for."""
    lists = [list(dict.fromkeys(value)) if isinstance(value, list) else [value] for value in parameters.values()]
    return [dict(zip(parameters, values, strict=True)) for values in product(*lists)]


def _text(key: Mapping[str, Any]) -> str:
    """Canonical text of a key, equal however the key was requested: all values are texts in a URL."""
    return orjson.dumps({name: str(value) for name, value in key.items()}, option=orjson.OPT_SORT_KEYS).decode()
