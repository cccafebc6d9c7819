"""Concurrent start and end of context managers, each of which may take seconds."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any


@contextmanager
def together(*contexts: AbstractContextManager[Any]) -> Iterator[list[Any]]:
    """Enter all contexts, each in a thread of its own; what they give, in their order. If one raises, the others are
    ended and its exception is raised."""
    stacks = [ExitStack() for _ in contexts]
    with ThreadPoolExecutor(max(1, len(contexts))) as threads:
        entering = [threads.submit(each.enter_context, context) for each, context in zip(stacks, contexts, strict=True)]
        try:
            yield [each.result() for each in entering]
        finally:
            wait(entering)
            for closing in [threads.submit(each.close) for each in stacks]:
                closing.result()
