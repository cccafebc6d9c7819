"""Requests and responses of reads on the data port."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

#: A parameter's value: a JSON scalar, or the value's text.
ParameterValue = str | int | float | bool | None


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ViewKeys(_Request):
    """Several keys of one view."""

    keys: list[dict[str, Any]] = Field(
        description="Parameters by name, for each key: a JSON scalar or its text; for a list parameter, a list.",
        examples=[[{"id": 7}, {"id": 8}]],
    )


class ViewRead(_Request):
    """One key of a view."""

    view: str = Field(examples=["story_with_votes"])
    params: dict[str, Any] = Field(
        default_factory=dict,
        description="Parameters by name: a JSON scalar or its text; for a list parameter, a list.",
        examples=[{"id": 7}],
    )
    limit: int | None = Field(default=None, description="Maximum number of rows; ordered views only.", strict=True)
    after: str | None = Field(
        default=None, description="`next` of the previous page, with the same parameters.", strict=True
    )


class Reads(_Request):
    """Keys of several views."""

    reads: list[ViewRead]


class ViewRows(BaseModel):
    """The rows of one key."""

    rows: list[dict[str, Any]]
    next: str | None = Field(default=None, description="Token of the next page; null on the last page.")


class ReadResults(BaseModel):
    """Rows of all keys in the order of the request, all exact at `version`."""

    results: list[ViewRows]
    version: str | None = Field(
        description="null: fallbacks to the database (`on_lag`), whose version is unknown.",
        examples=["pg:0/16B3748"],
    )


class Checkpoint(BaseModel):
    """A token of the current position: a read with it as Upquery-Min-Version includes all earlier commits."""

    version: str = Field(examples=["pg:0/16B3748"])
