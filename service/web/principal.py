"""Who asks, and what they may: what every check of access works with.

Not here: how it is found out who asks (`authority`); where it is asked (`guard`, `admin`,
`service.worker.reads.reads`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import translate
from functools import cached_property
from typing import Any

from service.ground.errors import ApiError
from service.protocol.adhoc import is_of_query
from service.web.messages import Scope

#: Where a guarded service's requests have their principal.
SCOPE_KEY = "upquery.principal"
#: And an open path of one, that nobody with rights asks for it.
ANONYMOUS = "upquery.anonymous"
ALL_VIEWS = "*"
#: No view has a longer name.
_MAX_NAME = 63


class Right(StrEnum):
    """What a token may be good for."""

    #: The data plane: reading the views that the token names.
    READ = "read"
    #: Queries that name no view (docs/adhoc.md): whatever the lookups' login may read.
    QUERY = "query"
    #: The admin port: everything there, which includes the SQL of all views.
    ADMIN = "admin"


@dataclass(frozen=True)
class Principal:
    """The owner of a valid token. `views` are names of views that it may read, with ``*`` and ``?``.

    Not slotted: the pattern of its views is made once, when a read first needs it.
    """

    name: str
    rights: frozenset[Right]
    views: tuple[str, ...] = (ALL_VIEWS,)
    claims: Mapping[str, Any] = field(default_factory=dict)
    #: Unix time.
    expires_at: float | None = None

    def may_read(self, view: str) -> bool:
        """Whether it may read a view of that name, if there is one. Views of queries have rows that were asked for with
        the right to query, whatever claims other views demand: they are only for who has it, too."""
        if is_of_query(view) and Right.QUERY not in self.rights:
            return False
        if self.reads_all:
            return True
        return Right.READ in self.rights and len(view) <= _MAX_NAME and self._pattern.fullmatch(view) is not None

    def claim(self, path: str) -> Any:
        """The claim that ``a.b`` names: the member b of the claim a. None if there is none."""
        found: Any = self.claims
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    @cached_property
    def reads_all(self) -> bool:
        """Whether it may read every view but those of queries."""
        return Right.READ in self.rights and ALL_VIEWS in self.views

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(map(translate, self.views)) or r"(?!)")


def principal_of(scope: Scope) -> Principal | None:
    """Who asks; None on a service without access control."""
    principal: Principal | None = scope.get(SCOPE_KEY)
    return principal


def require_read(principal: Principal | None, view: str) -> None:
    """ApiError ``forbidden`` if the view may not be read, whether or not there is one of that name: a name that is
    refused must not say that it exists."""
    if principal is not None and not principal.may_read(view):
        raise ApiError(
            "forbidden",
            f"This token may not read a view {view[:_MAX_NAME]!r}.",
            "Use a token whose views include that name.",
        )


def readable(principal: Principal | None, views: Sequence[str]) -> list[str]:
    """The names among `views` that may be told."""
    return [view for view in views if principal is None or principal.may_read(view)]
