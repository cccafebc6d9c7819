"""The authenticated client and its rights, for every check of access.

Not here: authentication (`auth.authority`); the places of the checks (`auth.guard`, the admin port,
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

#: Scope key of the principal in a guarded service.
SCOPE_KEY = "upquery.principal"
#: Scope key of requests to an open path of a guarded service: the client has shown no rights.
ANONYMOUS = "upquery.anonymous"
ALL_VIEWS = "*"
#: Maximum length of a view's name.
_MAX_NAME = 63


class Right(StrEnum):
    """Rights of a token."""

    #: Reading of the views that the token names (data port).
    READ = "read"
    #: Ad-hoc queries (docs/adhoc.md): everything that the login of lookups may read.
    QUERY = "query"
    #: Everything of the admin port, which includes the SQL of all views.
    ADMIN = "admin"


@dataclass(frozen=True)
class Principal:
    """The owner of a valid token. `views` are patterns of readable views' names, with ``*`` and ``?``.

    Without slots: the compiled pattern is cached at its first use.
    """

    name: str
    rights: frozenset[Right]
    views: tuple[str, ...] = (ALL_VIEWS,)
    claims: Mapping[str, Any] = field(default_factory=dict)
    expires_at: float | None = None

    def may_read(self, view: str) -> bool:
        """Return whether it may read a view of that name, if one exists. Views of ad-hoc queries need the right to
        query, too: they may contain rows that other views restrict by claims."""
        if is_of_query(view) and Right.QUERY not in self.rights:
            return False
        if self.reads_all:
            return True
        return Right.READ in self.rights and len(view) <= _MAX_NAME and self._pattern.fullmatch(view) is not None

    def claim(self, path: str) -> Any:
        """Return the claim of a path: ``a.b`` is the member b of the claim a. None if it does not exist."""
        found: Any = self.claims
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    @cached_property
    def reads_all(self) -> bool:
        """True if it may read every view, except those of ad-hoc queries."""
        return Right.READ in self.rights and ALL_VIEWS in self.views

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(map(translate, self.views)) or r"(?!)")


def principal_of(scope: Scope) -> Principal | None:
    """Return the client of a request; None in a service without access control."""
    principal: Principal | None = scope.get(SCOPE_KEY)
    return principal


def require_read(principal: Principal | None, view: str) -> None:
    """Check that the view may be read, whether or not it exists: a refusal must not reveal which names exist.

    Raises ApiError(forbidden).
    """
    if principal is not None and not principal.may_read(view):
        raise ApiError(
            "forbidden",
            f"This token may not read a view {view[:_MAX_NAME]!r}.",
            "Use a token whose views include that name.",
        )


def readable(principal: Principal | None, views: Sequence[str]) -> list[str]:
    """Return the names that the principal may see."""
    return [view for view in views if principal is None or principal.may_read(view)]
