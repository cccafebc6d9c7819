"""The parts of a workload model that a service applies: keys to pin and to fill, and memory of views.

A model is a file of `dataflow.spark.workload.model`; what it has besides is for people.

*Invariants*: a document of another kind or format is refused before anything of it is done.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.protocol.admin_models import Model, ViewName

#: Of each view.
MOST_PREWARM = 20_000
MOST_PINS = 1_000
#: Texts of all parameters of a view, in the order of the access log.
Texts = Annotated[list[str | None], Field(max_length=64)]


class AppliedView(BaseModel):
    """A view of a model. `budget_bytes` is advice: there is one budget for all views."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    budget_bytes: int = Field(default=0, ge=0, le=1 << 53)
    prewarm: list[Texts] = Field(default=[], max_length=MOST_PREWARM)
    pin: list[Texts] = Field(default=[], max_length=MOST_PINS)


class WorkloadModel(BaseModel):
    """A model, as ``upquery workload report`` writes it."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    kind: Literal["upquery workload model"]
    format: Literal[2]
    views: dict[ViewName, AppliedView]


class AppliedState(Model):
    """State of the model applied to a view. `pinned`: keys of the engine; `refused`: keys that are none of the
    view's."""

    view: str
    budget_bytes: int
    used_bytes: int
    pins: int
    pinned: int
    refused: int
    prewarm: int


class Workload(Model):
    """The model that is applied."""

    applied: bool
    views: list[AppliedState]
