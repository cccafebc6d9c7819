"""Lists of objects by id, as a careful author caches them: each object by itself, whatever lists it is asked for in.

``… WHERE stories.id IN (:ids)`` is a list of such objects if its rows under each id do not depend on the others. Any
other view with a list, or with another parameter beside it, is cached by the list as a whole.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import sqlglot
from sqlglot import exp

from load.peers.backend import Read
from load.peers.statements import Values
from load.site import SiteView

_EMPTY = b"[]"
#: What makes rows depend on others.
_JOINTLY = ("group", "distinct", "order", "limit", "offset", "having")


def of_one(view: SiteView) -> SiteView | None:
    """The view of one object, under another name; None if the view is no list of objects."""
    if len(view.parameters) != 1 or not all(kind.endswith("[]") for kind in view.parameters.values()):
        return None
    ((name, kind),) = view.parameters.items()
    select = sqlglot.parse_one(view.sql, dialect="postgres")
    if not isinstance(select, exp.Select) or any(select.args.get(part) is not None for part in _JOINTLY):
        return None
    if any(select.find(each) is not None for each in (exp.AggFunc, exp.Window, exp.Not, exp.Or)):
        return None
    sql, found = re.subn(rf"\bIN\s*\(\s*:{name}\s*\)", f"= :{name}", view.sql, flags=re.IGNORECASE)
    if found != 1 or any(len(list(select.find_all(each))) != 1 for each in (exp.Placeholder, exp.Select)):
        return None
    return replace(view, name=name_of_one(view.name), sql=sql, parameters={name: kind.removesuffix("[]")})


def name_of_one(view: str) -> str:
    """The name of the view of one object."""
    return f"{view}[]"


def reads_of_each(view: str, values: Values) -> list[Read]:
    """A read for each object of a list."""
    (listed,) = values
    assert isinstance(listed, tuple)
    return [(name_of_one(view), (each,)) for each in dict.fromkeys(listed)]


def together(rows: Sequence[bytes]) -> bytes:
    """One JSON array of the rows of all."""
    return b"[%b]" % b",".join([each[1:-1] for each in rows if each != _EMPTY])
