"""RFC 9457 problem details, the body of every error response."""

from pydantic import BaseModel, ConfigDict, Field


class Problem(BaseModel):
    """Problem details: `code` and `retryable` are for programs, `detail` and `hint` for people."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:upquery:problem:parameter_missing"])
    title: str
    status: int
    detail: str
    instance: str = Field(description="Path of the request.")
    code: str = Field(examples=["parameter_missing"])
    hint: str | None = Field(default=None, description="Remedy.")
    retryable: bool = Field(description="Whether the same request may succeed later.")
