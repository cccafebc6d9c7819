"""Where a view is looked for, for one request, as shards say that they do not have it.

*Theory*: a key's home answers it. There are exceptions, which pods say themselves: a view that is kept whole is with
one shard only (``misdirected``): mostly the one that the rule of homes says, and while their number changes, or pods
have not been told of it, another. And one that is new may not be known everywhere yet (``view_not_found``); shard 0 is
believed.

*Invariants*: no shard is named twice.
"""

from service.gateway.known import LearnedViews
from service.gateway.pods import NOT_FOUND
from service.gateway.topology import Topology
from service.web.messages import Headers

MISDIRECTED = "misdirected"
#: What another shard may not say: it has the view still, or already.
_BUILDING, _AWAY = "view_building", "engine_unavailable"
_FIRST = 0


class ViewSearch:
    """Of `view`. *State*: `shard` is who is asked now; `is_whole`, whether the view is kept whole, as far as is
    known."""

    def __init__(self, topology: Topology, known: LearnedViews, view: str, home: int = _FIRST) -> None:
        """`home`: where the key lives that is asked for, if the view is not kept whole."""
        self._topology = topology
        self._known = known
        self.view = view
        self._asked: list[int] = []
        whole = known.whole_home(view)
        self.is_whole = whole is not None
        self.shard = home if whole is None or whole >= len(topology.shards) else whole

    def refused(self, code: str, by: int | None = None) -> bool:
        """`shard` has refused, or whoever was asked; whether there is another one to ask, which `shard` is from now
        on."""
        self._asked.append(self.shard if by is None else by)
        found = next((shard for shard in self._others(code) if shard not in self._asked), None)
        if found is None:
            return False
        self.shard = found
        return True

    def answered(self) -> None:
        """`shard` has answered."""
        if self.is_whole:
            self._known.learn_whole(self.view, self.shard)

    def learn(self, headers: Headers) -> None:
        """It has answered with these."""
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
        # A shard that is new builds what it was just given: whether that is a view that is kept whole is not known yet,
        # and of any other each shard has each key. One that is away is not asked around for, unless nobody else can.
        if code == _BUILDING or (code == _AWAY and self.is_whole):
            return self._topology.homes_of_view(self.view)
        return []
