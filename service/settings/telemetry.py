"""The tables ``[access_log]`` and ``[traces]`` (docs/telemetry.md)."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import ByteSize, Field, field_validator, model_validator

from service.settings.sections import Section


class AccessLogSettings(Section):
    """What is read, when, and how it was answered: one line for each read. Without this table nothing is written."""

    #: A folder; each worker writes files of its own there.
    path: Path
    #: JSON lines, or Parquet with the extra of that name.
    format: Literal["jsonl", "parquet"] = "jsonl"
    #: A file is finished, and another one begun, when it is that large or old.
    rotate_bytes: ByteSize = Field(default=ByteSize(64 << 20), ge=1024)
    rotate_s: float = Field(default=3600.0, gt=0)
    #: Finished files that are kept, of each worker; older ones are removed.
    keep_files: int = Field(default=200, ge=1)
    #: The share of reads that is written: of all reads of a key or of none (what miss-ratio curves need), or of reads
    #: wherever they fall.
    sample_rate: float = Field(default=1.0, gt=0, le=1)
    sample: Literal["keys", "reads"] = "keys"
    #: Reads of each worker that wait to be written; further ones are not, and counted.
    buffer_reads: int = Field(default=50_000, ge=100)
    #: Values that come from tokens: replaced by a keyed hash, or by null.
    claims: Literal["hash", "omit"] = "hash"

    @field_validator("format")
    @classmethod
    def _is_installed(cls, form: str) -> str:
        if form == "parquet" and find_spec("pyarrow") is None:
            raise ValueError("Parquet needs pyarrow: pip install 'upquery[parquet]'")
        return form


class TraceSettings(Section):
    """OpenTelemetry traces, with the extra ``otel``. Without this table there are none."""

    #: Where spans go: OTLP over HTTP. Headers of these requests come from OTEL_EXPORTER_OTLP_HEADERS.
    endpoint: str = "http://127.0.0.1:4318/v1/traces"
    #: Of requests without a trace of their own, the share that begins one. Those that bring one decide it themselves.
    sample_rate: float = Field(default=0.01, ge=0, le=1)
    service_name: str = Field(default="upquery", min_length=1)

    @model_validator(mode="after")
    def _is_installed(self) -> Self:
        if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
            raise ValueError("traces need OpenTelemetry's SDK: pip install 'upquery[otel]'")
        return self

    @field_validator("endpoint")
    @classmethod
    def _is_http(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("it must be a URL, as http://127.0.0.1:4318/v1/traces")
        if parts.username is not None or parts.password is not None:
            raise ValueError("it must not have a password in it: set OTEL_EXPORTER_OTLP_HEADERS")
        return url
