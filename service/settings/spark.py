"""The table ``[spark]``: large initial state is computed by Spark (docs/builds.md)."""

from pathlib import Path

from pydantic import ByteSize, Field, field_validator

from service.settings.sections import Section

#: Settings of Spark that are the service's to choose: what it relies on.
_OURS = ("spark.master", "spark.driver.memory", "spark.executor.memory")


class SparkSettings(Section):
    """Where and how. Without this table Spark is not used."""

    #: Any of Spark's: ``local[2]``, ``spark://host:7077``, ``k8s://…``. Its executors must reach the upstream and write
    #: into `directory`.
    master: str = Field(default="local[*]", min_length=1)
    #: What has fewer rows, by the database's estimate, is read directly.
    threshold_rows: int = Field(default=1_000_000, ge=0)
    #: Where builds are put until they have been read. Default: below ``[state] directory``.
    directory: Path | None = None
    #: Of the driver, which with a master that is local does the work, and of each executor.
    driver_memory: ByteSize = Field(default=ByteSize(1 << 30), ge=256 << 20)
    executor_memory: ByteSize = Field(default=ByteSize(1 << 30), ge=256 << 20)
    #: Pieces that a table is read in. Default: by its size.
    partitions: int | None = Field(default=None, ge=1, le=100_000)
    #: How far readers and the engine come first (``nice``).
    nice: int = Field(default=10, ge=0, le=19)
    #: More settings of Spark's, by name.
    conf: dict[str, str] = Field(default_factory=dict)

    @field_validator("conf")
    @classmethod
    def _has_a_setting_of_its_own(cls, conf: dict[str, str]) -> dict[str, str]:
        for name in conf:
            if name in _OURS:
                raise ValueError(f"{name} is set by {name.removeprefix('spark.').replace('.', '_')}, beside conf")
            if not name.startswith("spark."):
                raise ValueError(f"{name!r} is no setting of Spark's: their names begin with 'spark.'")
        return conf
