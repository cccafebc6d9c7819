"""The tables ``[access_log]`` and ``[traces]`` (docs/telemetry.md)."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import ByteSize, Field, field_validator, model_validator

from service.settings.sections import Section


class AccessLogSettings(Section):
    """The access log: one line for each read. Without this table nothing is written."""

    #: Folder of the log; each worker writes its own files.
    path: Path
    #: JSON lines, or Parquet with the extra ``parquet``.
    format: Literal["jsonl", "parquet"] = "jsonl"
    #: Size at which a file is finished and another one begun.
    rotate_bytes: ByteSize = Field(default=ByteSize(64 << 20), ge=1024)
    #: Age in seconds at which a file is finished.
    rotate_s: float = Field(default=3600.0, gt=0)
    #: Maximum finished files of each worker; older ones are removed.
    keep_files: int = Field(default=200, ge=1)
    #: Share of reads that is logged.
    sample_rate: float = Field(default=1.0, gt=0, le=1)
    #: Unit of sampling: ``keys`` logs all reads of a key or none, as miss-ratio curves require; ``reads`` logs random
    #: reads.
    sample: Literal["keys", "reads"] = "keys"
    #: Maximum reads of each worker that wait to be written; further ones are dropped and counted.
    buffer_reads: int = Field(default=50_000, ge=100)
    #: Replacement of values from tokens: a keyed hash, or null.
    claims: Literal["hash", "omit"] = "hash"

    @field_validator("format")
    @classmethod
    def _is_installed(cls, form: str) -> str:
        if form == "parquet" and find_spec("pyarrow") is None:
            raise ValueError("Parquet needs pyarrow: pip install 'upquery[parquet]'")
        return form


class TraceSettings(Section):
    """OpenTelemetry traces, with the extra ``otel``. Without this table tracing is off."""

    #: Collector of spans: OTLP over HTTP. OTEL_EXPORTER_OTLP_HEADERS has the headers of these requests.
    endpoint: str = "http://127.0.0.1:4318/v1/traces"
    #: Share of requests without a `traceparent` that start a trace. Others follow their sampled flag.
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
            raise ValueError("it must be a URL, such as http://127.0.0.1:4318/v1/traces")
        if parts.username is not None or parts.password is not None:
            raise ValueError("it must not contain a password; set OTEL_EXPORTER_OTLP_HEADERS")
        return url
