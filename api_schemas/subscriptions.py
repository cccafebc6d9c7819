"""Subscriptions: events, responses of long polls, and messages of clients over a WebSocket."""

from typing import Any, Literal

from pydantic import BaseModel, Field

_VERSION = Field(examples=["pg:0/16B3748"])


class Snapshot(BaseModel):
    """An event ``snapshot``: all rows."""

    rows: list[dict[str, Any]]
    version: str = _VERSION


class Change(BaseModel):
    """An event ``change``: the difference to the rows at `version`. Remove the rows at `removed_at`, last one first;
    then insert those of `added` at `added_at`, first one first."""

    removed: list[dict[str, Any]] = Field(description="Removed rows.")
    removed_at: list[int] = Field(description="Their indexes in the old rows, ascending.")
    added: list[dict[str, Any]] = Field(description="Added rows.")
    added_at: list[int] = Field(description="Their indexes in the new rows, ascending.")
    version: str = _VERSION


class Changes(BaseModel):
    """The response of a long poll."""

    snapshot: Snapshot | None = Field(description="All rows, if the request had no `after`.")
    changes: list[Change] = Field(description="Changes since `after`, in order; empty if there were none in time.")
    version: str = _VERSION
    token: str = Field(description="`after` of the next poll.", examples=["pg:0/16B3748~5f0c1d2e"])


class Subscribe(BaseModel):
    """A message to the service: subscribe to a view."""

    type: Literal["subscribe"]
    id: str | int = Field(description="Chosen by the client; in every message about this subscription.")
    view: str = Field(examples=["story_with_votes"])
    params: dict[str, Any] = Field(default_factory=dict, examples=[{"id": 7}])
    after: str | None = Field(default=None, description="Token of the last message, from which to resume.")


class Unsubscribe(BaseModel):
    """A message to the service: end a subscription."""

    type: Literal["unsubscribe"]
    id: str | int
