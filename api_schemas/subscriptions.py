"""Subscriptions: what events and long polls say, and what clients send over a WebSocket."""

from typing import Any, Literal

from pydantic import BaseModel, Field

_VERSION = Field(examples=["pg:0/16B3748"])


class Snapshot(BaseModel):
    """All rows: what an event ``snapshot`` says."""

    rows: list[dict[str, Any]]
    version: str = _VERSION


class Change(BaseModel):
    """From the rows before to those of `version`: an event ``change``. Take away the rows of `removed_at`, the last one
    first; then put those of `added` to the places of `added_at`, the first one first."""

    removed: list[dict[str, Any]] = Field(description="Rows that went, as they were.")
    removed_at: list[int] = Field(description="Their places in the old rows, ascending.")
    added: list[dict[str, Any]] = Field(description="Rows that came.")
    added_at: list[int] = Field(description="Their places in the new rows, ascending.")
    version: str = _VERSION


class Changes(BaseModel):
    """The answer to a long poll."""

    snapshot: Snapshot | None = Field(description="All rows, if the request had no `after`.")
    changes: list[Change] = Field(description="What has changed since, in order; empty if nothing did in time.")
    version: str = _VERSION
    token: str = Field(description="The next poll's `after`.", examples=["pg:0/16B3748~5f0c1d2e"])


class Subscribe(BaseModel):
    """A message to the service: follow a view."""

    type: Literal["subscribe"]
    id: str | int = Field(description="The client's own, in every message about this subscription.")
    view: str = Field(examples=["story_with_votes"])
    params: dict[str, Any] = Field(default_factory=dict, examples=[{"id": 7}])
    after: str | None = Field(default=None, description="The token of the last message: go on behind it.")


class Unsubscribe(BaseModel):
    """A message to the service: not any more."""

    type: Literal["unsubscribe"]
    id: str | int
