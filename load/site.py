"""A site: schema, views and writes that all sides of a comparison serve."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SiteView:
    """A view as every side knows it. `sql` has ``:name`` parameters."""

    name: str
    sql: str
    #: SQL types of the parameters; ``bigint[]`` takes a list.
    parameters: Mapping[str, str]
    #: Options of the service's PUT (``materialization`` …).
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SiteWrite:
    """Something the application writes: statements of one transaction, with ``:name`` parameters of some type."""

    name: str
    statements: tuple[str, ...]
    parameters: Mapping[str, str]
    #: What a careful author of a cache-aside application deletes: views, with the parameters that make their keys. A
    #: parameter's value is ``:name`` of the write's; for a list of objects it is the one that changed. Views whose keys
    #: the write does not know are listed nowhere.
    invalidates: tuple[tuple[str, Mapping[str, str]], ...] = ()


@dataclass(frozen=True, slots=True)
class SiteDefinition:
    """Schema, views and writes that all sides of a comparison serve."""

    name: str
    schema_sql: str
    views: tuple[SiteView, ...]
    writes: tuple[SiteWrite, ...]
