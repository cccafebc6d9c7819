"""The policies by the names that settings know.

*Not here*: what each does (its own file), the setting (`service.settings`).
"""

from collections.abc import Callable, Mapping
from typing import Any

from dataflow.eviction.clock import Clock
from dataflow.eviction.lru import Lru
from dataflow.eviction.policy import Policy
from dataflow.eviction.random_choice import RandomChoice
from dataflow.eviction.s3_fifo import S3Fifo

DEFAULT = "s3-fifo"
POLICIES: Mapping[str, Callable[[], Policy[Any]]] = {
    DEFAULT: S3Fifo,
    "lru": Lru,
    "clock": Clock,
    "random": RandomChoice,
}


def by_name(name: str) -> Policy[Any]:
    """A new, empty policy. Raises KeyError: none is called so."""
    return POLICIES[name]()
