"""JSON of messages between processes, derived from their dataclasses."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar, get_args

from pydantic import TypeAdapter

R_co = TypeVar("R_co", covariant=True)


class Request(Generic[R_co]):
    """A message whose reply is an `R_co`. Both ends are checked by that argument, and the codec reads it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Codec:
    """Both directions of a type; `read` and `of_fields` raise ValueError."""

    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]
    #: From JSON that is already parsed.
    of_fields: Callable[[Any], Any]


@cache
def codec_of(kind: Any) -> Codec:
    """The codec of a type."""
    adapter = TypeAdapter(kind)
    # Without the adapter's own methods, which take a microsecond to pass their options on.
    return Codec(adapter.serializer.to_json, adapter.validator.validate_json, adapter.validator.validate_python)


def reply_codec_of(request: Request[Any]) -> Codec:
    """The codec of the replies to a request."""
    kind: Any = type(request)
    return codec_of(_reply_type(kind))


@cache
def _reply_type(kind: Any) -> Any:
    (base,) = vars(kind)["__orig_bases__"]
    (reply,) = get_args(base)
    return reply
