"""Request and response of ad-hoc queries on the data port."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Query(BaseModel):
    """One SELECT in the database's dialect."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(min_length=1, examples=["SELECT id, title FROM stories WHERE author = :author"], strict=True)
    params: dict[str, Any] | list[Any] = Field(
        default_factory=dict,
        description="Values of the parameters by name (`:author`), or in order (`?`, `$1`): a JSON scalar or its"
        " text; for a list parameter, a list.",
        examples=[{"author": "elena"}],
    )


class QueryRows(BaseModel):
    """The rows, exact at `version` if a view answered."""

    rows: list[dict[str, Any]]
    version: str | None = Field(
        description="null: a fallback to the database, whose version is unknown.", examples=["pg:0/16B3748"]
    )
