"""Reads: what clients POST to the data plane, and what they get."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

#: A parameter's value: a JSON scalar, or the value's text.
ParameterValue = str | int | float | bool | None


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ViewKeys(_Request):
    """Several keys of one view."""

    keys: list[dict[str, Any]] = Field(
        description="Parameters by name, for each key: a JSON scalar or its text; of a list parameter, a list.",
        examples=[[{"id": 7}, {"id": 8}]],
    )


class ViewRead(_Request):
    """One key of a view."""

    view: str = Field(examples=["story_with_votes"])
    params: dict[str, Any] = Field(
        default_factory=dict,
        description="Parameters by name: a JSON scalar or its text; of a list parameter, a list.",
        examples=[{"id": 7}],
    )
    limit: int | None = Field(default=None, description="At most so many rows; ordered views only.", strict=True)
    after: str | None = Field(
        default=None, description="The `next` of an earlier page, with the same parameters.", strict=True
    )


class Reads(_Request):
    """Keys of several views."""

    reads: list[ViewRead]


class ViewRows(BaseModel):
    """The rows of one key."""

    rows: list[dict[str, Any]]
    next: str | None = Field(default=None, description="The token of the next page; null if there is none.")


class ReadResults(BaseModel):
    """Rows of all keys, in the request's order, all exact at `version`."""

    results: list[ViewRows]
    version: str | None = Field(
        description="null: the database's own answers (`on_lag`), exact at no known version.",
        examples=["pg:0/16B3748"],
    )


class Checkpoint(BaseModel):
    """A token for now: a read with it as Upquery-Min-Version sees everything that was committed before."""

    version: str = Field(examples=["pg:0/16B3748"])
