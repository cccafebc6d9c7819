"""The eviction policies that are compared, by name: the engine's, which is the default, and classic ones."""

from collections.abc import Callable, Mapping
from typing import Any

from dataflow.eviction.policy import Policy
from dataflow.eviction.s3_fifo import S3Fifo
from load.micro.clock import Clock
from load.micro.lru import Lru
from load.micro.random_choice import RandomChoice

DEFAULT = "s3-fifo"
POLICIES: Mapping[str, Callable[[], Policy[Any]]] = {
    DEFAULT: S3Fifo,
    "lru": Lru,
    "clock": Clock,
    "random": RandomChoice,
}


def by_name(name: str) -> Policy[Any]:
    """Returns a new, empty policy. Raises KeyError if the name is unknown."""
    return POLICIES[name]()
