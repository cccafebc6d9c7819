"""Placement of reads on shards, by the current catalogs of all shards.

*Theory*: by the rule of `homes` every shard is the home of some keys. Fully materialized views are the exception:
the catalogs of the other shards mark them ``elsewhere``. Some views are known to some shards only: those made of
ad-hoc queries, and those being registered.

*Invariants*: a read goes to a shard that has the view, if the catalog of one is known. A shard whose catalog is
unknown (it is starting) is assumed to have the others' views: its keys wait for it and do not all move to others.

Not here: the rule (`homes`); parsing of requests (`service.web.arguments`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.leaf_store.catalog import ELSEWHERE, ViewInfo
from service.leaf_store.layout import HEAD_BYTES, key_part
from service.leaf_store.request import Values, request_of
from service.sharding.homes import Homes
from service.worker.reads.reads import Reads, ViewRoute

#: Maximum query strings whose shard is cached, by view, and the maximum length of one.
_MAX_REMEMBERED = 1 << 15
_MAX_REMEMBERED_BYTES = 256


class PlacedView:
    """A view, and the shards of its keys. `route` belongs to a shard that has the view, and parses its parameters."""

    __slots__ = ("_of_key", "_only", "name", "remembered", "route", "shard")

    def __init__(
        self, route: ViewRoute, shard: int, homes: Homes, having: Sequence[int], *, whole: bool = False
    ) -> None:
        self.name = route.info.name
        self.route = route
        #: The shard that reports errors in requests for it.
        self.shard = shard
        self._only = having[0] if whole or len(having) == 1 else None
        self._of_key = _among(homes, self.name, having)
        #: Cached shards by query string.
        self.remembered: dict[bytes, int] = {}

    @property
    def whole(self) -> bool:
        """True if one shard answers all its reads."""
        return self._only is not None

    def of_entry(self, name: bytes) -> int:
        """Return the shard of an entry, by its name in any leaf store."""
        return self._of_key(name[HEAD_BYTES:]) if self._only is None else self._only

    def of_values(self, values: Values) -> int:
        """Return the shard that answers a read: for several keys that of the first one, which fills all of them."""
        if self._only is not None:
            return self._only
        keys = request_of(self.route.info, values).keys
        return self._of_key(key_part(keys[0] if keys else ()))

    def of_query(self, query: bytes) -> int | None:
        """Return the shard of a query string; None if it depends on more than the string. Raises
        ApiError(parameter_…)."""
        found = self.remembered.get(query)
        return self._find(query) if found is None else found

    def _find(self, query: bytes) -> int | None:
        route = self.route
        if route.info.claims:
            return None
        name = route.entry_of(query)
        found = self.of_values(route.arguments.parse(query)[0]) if name is None else self.of_entry(name)
        if len(query) <= _MAX_REMEMBERED_BYTES:
            if len(self.remembered) >= _MAX_REMEMBERED:
                self.remembered.clear()
            self.remembered[query] = found
        return found


def _among(homes: Homes, view: str, having: Sequence[int]) -> Callable[[bytes], int]:
    """Return `Homes.keys_of`, with the next shard in the key's order if its home does not have the view."""
    if len(having) == homes.shards:
        return homes.keys_of(view)
    there = frozenset(having)
    return lambda key: next(shard for shard in homes.order(view, key) if shard in there)


@dataclass(slots=True)
class Placing:
    """The placement of all views. *State*: `views` by name, from the catalogs in `_seen`."""

    shards: Sequence[Reads]
    homes: Homes
    views: dict[str, PlacedView]
    _seen: tuple[object, ...] = ()

    @classmethod
    def over(cls, shards: Sequence[Reads]) -> "Placing":
        return cls(shards, Homes(len(shards)), {})

    def follow(self) -> bool:
        """Take over the current catalogs; return whether they have changed."""
        for reads in self.shards:
            reads.refresh()
        seen = tuple(reads.catalog for reads in self.shards)
        if len(seen) == len(self._seen) and all(map(_is, seen, self._seen)):
            return False
        self._seen = seen
        names = dict.fromkeys(name for reads in self.shards for name in reads.routes)
        self.views = {name: self._place(name) for name in names}
        return True

    @property
    def catalogs(self) -> tuple[object, ...]:
        """An object that is replaced whenever a catalog changes."""
        return self._seen

    def unknown(self) -> int:
        """Return the shard that answers for an unknown view: one without a catalog yet, if there is one."""
        return next((shard for shard, reads in enumerate(self.shards) if not _is_known(reads)), 0)

    def _place(self, name: str) -> PlacedView:
        routes = [reads.routes.get(name) for reads in self.shards]
        kept = {shard: route for shard, route in enumerate(routes) if route is not None and _is_kept(route.info)}
        # A view may be broken in one shard only.
        keeping = [shard for shard, route in kept.items() if route.info.status != "broken"] or list(kept)
        starting = [shard for shard, reads in enumerate(self.shards) if not _is_known(reads)]
        whole = any(route is not None and route.info.status == ELSEWHERE for route in routes)
        if not whole:
            return PlacedView(kept[keeping[0]], keeping[0], self.homes, sorted({*keeping, *starting}))
        home = self.homes.of_view(name)
        if keeping and home not in keeping and home not in starting:
            home = keeping[0]
        route = kept.get(home) or next(filter(None, routes))
        return PlacedView(route, home, self.homes, [home], whole=True)


def _is(one: object, other: object) -> bool:
    return one is other


def _is_known(reads: Reads) -> bool:
    return reads.started and reads.catalog is not None and reads.catalog.known


def _is_kept(info: ViewInfo) -> bool:
    return info.status != ELSEWHERE
