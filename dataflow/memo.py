"""Results remembered by texts that clients and data choose: bounded in bytes, not only in number."""

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import TypeVar

R = TypeVar("R")

#: Characters of a text that is remembered, if its users do not say less: 4 kB at most.
MAX_CHARACTERS = 1000


def remembered(entries: int, characters: int = MAX_CHARACTERS) -> Callable[[Callable[[str], R]], Callable[[str], R]]:
    """`lru_cache` of a function of a text; of longer texts the result is computed anew each time."""

    def decorate(function: Callable[[str], R]) -> Callable[[str], R]:
        short = lru_cache(maxsize=entries)(function)

        def call(text: str) -> R:
            return short(text) if len(text) <= characters else function(text)

        return update_wrapper(call, function)

    return decorate
