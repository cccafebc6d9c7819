"""Search for the shard of a view, for one request, by the refusals of shards.

*Theory*: a key's home answers it, with two exceptions, which pods report. A fully materialized view is in one shard
only (``misdirected``): usually the one given by the rule of homes, but another while the number of shards changes or
pods do not know the new number yet. A new view may not be known to all shards (``view_not_found``); shard 0's answer
is final.

*Invariants*: no shard is tried twice.
"""

from service.gateway.known import LearnedViews
from service.gateway.pods import NOT_FOUND
from service.gateway.topology import Topology
from service.web.messages import Headers

MISDIRECTED = "misdirected"
#: Refusals after which other shards are not tried: the shard has the view, or is about to.
_BUILDING, _AWAY = "view_building", "engine_unavailable"
_FIRST = 0


class ViewSearch:
    """The search for `view`. *State*: `shard` is the one to ask now; `is_whole`, whether the view is known to be
    fully materialized."""

    def __init__(self, topology: Topology, known: LearnedViews, view: str, home: int = _FIRST) -> None:
        """`home`: the key's home, for a view that is sharded by keys."""
        self._topology = topology
        self._known = known
        self.view = view
        self._asked: list[int] = []
        whole = known.whole_home(view)
        self.is_whole = whole is not None
        self.shard = home if whole is None or whole >= len(topology.shards) else whole

    def refused(self, code: str, by: int | None = None) -> bool:
        """Note a refusal of `shard` or `by`; return whether another shard remains, which is then `shard`."""
        self._asked.append(self.shard if by is None else by)
        found = next((shard for shard in self._others(code) if shard not in self._asked), None)
        if found is None:
            return False
        self.shard = found
        return True

    def answered(self) -> None:
        """Note that `shard` has answered."""
        if self.is_whole:
            self._known.learn_whole(self.view, self.shard)

    def learn(self, headers: Headers) -> None:
        """Note an answer with these headers."""
        self.answered()
        for name, value in headers:
            if name == b"vary" and b"authorization" in value.lower():
                self._known.learn_private(self.view)

    def _others(self, code: str) -> list[int]:
        if code == MISDIRECTED:
            self.is_whole = True
            return [*self._topology.homes_of_view(self.view), *range(len(self._topology.shards))]
        if code == NOT_FOUND:
            return [_FIRST]
        # A new shard builds the view: whether it is fully materialized is unknown yet, and any other view has each key
        # in each shard. If a shard is away, others are tried only if one of them may be able to answer.
        if code == _BUILDING or (code == _AWAY and self.is_whole):
            return self._topology.homes_of_view(self.view)
        return []
