"""RFC 9457 problem details, as every error answer has them."""

from pydantic import BaseModel, ConfigDict, Field


class Problem(BaseModel):
    """What went wrong, for programs (`code`, `retryable`) and for people (`detail`, `hint`)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:upquery:problem:parameter_missing"])
    title: str
    status: int
    detail: str
    instance: str = Field(description="The path of the request.")
    code: str = Field(examples=["parameter_missing"])
    hint: str | None = Field(default=None, description="What to do about it.")
    retryable: bool = Field(description="Whether the same request may succeed later.")
