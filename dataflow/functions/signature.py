"""Overloads, of which the families' tables consist: a function by its arguments' types, as in PostgreSQL's catalog.

A table is complete in that sense: where PostgreSQL has an overload on types that we know, it is listed, without a
function if it is not computed here, so that a call resolves to the same overload as upstream.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dataflow.types import Value


@dataclass(frozen=True, slots=True)
class Signature:
    """One overload. Every one is strict: NULL if an argument is.

    `function` takes the arguments' texts and gives the result's; None: not exact here, refused. `folding`: it comes
    after the class of its first argument's case folding (`SqlType.folding`), and is refused where that is not known.
    """

    arguments: tuple[str, ...]
    result: str
    function: Callable[..., Value] | None
    folding: bool = False


#: Overloads by name.
Table = Mapping[str, tuple[Signature, ...]]


def signature(
    arguments: str, result: str, function: Callable[..., Value] | None, *, folding: bool = False
) -> Signature:
    """A signature from its arguments' types, written one after the other."""
    return Signature(tuple(arguments.split()), result, function, folding)


def refused(*overloads: str) -> tuple[Signature, ...]:
    """Overloads that exist upstream and are not computed here, each as ``argument types -> result``."""
    pairs = (overload.split(" -> ") for overload in overloads)
    return tuple(signature(arguments, result, None) for arguments, result in pairs)
