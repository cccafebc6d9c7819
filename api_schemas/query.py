"""Queries that name no view: what clients POST to the data plane, and what they get."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Query(BaseModel):
    """One SELECT in the database's dialect."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(min_length=1, examples=["SELECT id, title FROM stories WHERE author = :author"], strict=True)
    params: dict[str, Any] | list[Any] = Field(
        default_factory=dict,
        description="Values of its parameters by name (`:author`), or in their order (`?`, `$1`): a JSON scalar or its"
        " text; of a list parameter, a list.",
        examples=[{"author": "elena"}],
    )


class QueryRows(BaseModel):
    """The rows, exact at `version` if a view has answered."""

    rows: list[dict[str, Any]]
    version: str | None = Field(
        description="null: the database's own answer, exact at no known version.", examples=["pg:0/16B3748"]
    )
