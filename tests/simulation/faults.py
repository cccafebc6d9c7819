"""Nodes that fail as nothing fails upstream (a limit of Python's, memory, a fault of ours): once, at a random place,
before their work, after it, or half-way.

*Invariants*: what is armed raises one `Fault`, and is as it was afterwards. Nothing is armed in a compiled build, where
methods cannot be replaced.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

from dataflow.engine.engine import Engine
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import BlockNode, ChainNode, InnerNode, UnionNode
from tests.fixtures.compiled import COMPILED

#: What can fail of an inner node: each is called with rows, or what was made of them, as the last argument but one.
_FILLS = ("absorb", "fill_rows", "fill_bag", "fill_groups", "fill_partitions", "extend", "cover_known")
_JOIN = ("delta", "bind", "rows", "keys_at")


class Fault(RuntimeError):
    """A node fails."""


class Faults:
    """Arms nodes of an engine. They fail within its steps only, not while it is looked into."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stepping = False

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """The engine takes a step."""
        self._stepping = True
        try:
            yield
        finally:
            self._stepping = False

    def arm(self, rng: Random) -> None:
        """Has some node fail the next time."""
        if COMPILED:
            return
        nodes = [node for _, node in sorted(self._engine.graph.by_id.items())]
        node = rng.choice(nodes) if nodes else None
        if isinstance(node, ChainNode):
            self._arm_chain(node, rng)
        elif isinstance(node, BlockNode):
            self._arm(node.join, rng.choice(_JOIN), rng)
        elif isinstance(node, UnionNode):
            self._arm(node, rng.choice(("delta", "rows")), rng)
        elif isinstance(node, Leaf):
            self._arm(node, "changes", rng)
        elif isinstance(node, InnerNode):
            self._arm(node, rng.choice([name for name in _FILLS if hasattr(node, name)]), rng)

    def _arm_chain(self, node: ChainNode, rng: Random) -> None:
        function = node.function
        failing = SimpleNamespace(chain=function.chain, projected=function.projected, rows=function.rows)
        failing.delta = self._once(function.delta, rng, lambda: setattr(node, "function", function))
        node.function = failing  # type: ignore[assignment]

    def _arm(self, owner: Any, name: str, rng: Random) -> None:
        # What is armed already is left to fail first.
        if name not in vars(owner):
            setattr(owner, name, self._once(getattr(owner, name), rng, lambda: delattr(owner, name)))

    def _once(self, function: Callable[..., Any], rng: Random, disarm: Callable[[], None]) -> Callable[..., Any]:
        moment = rng.choice(("before", "half-way", "after"))

        def fails(*arguments: Any, **options: Any) -> Any:
            if not self._stepping:
                return function(*arguments, **options)
            disarm()
            if moment == "after":
                function(*arguments, **options)
            elif moment == "half-way":
                _half(function, arguments, options)
            raise Fault(moment)

        return fails


def _half(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Half of a change, where the first argument is one."""
    if arguments and isinstance(arguments[0], tuple) and [type(rows) for rows in arguments[0]] == [list, list]:
        removed, added = arguments[0]
        function((removed[: len(removed) // 2], added[: len(added) // 2]), *arguments[1:], **options)
