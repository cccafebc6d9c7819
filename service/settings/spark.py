"""The table ``[spark]``: large initial loads by Spark (docs/builds.md)."""

from pathlib import Path

from pydantic import ByteSize, Field, field_validator

from service.settings.sections import Section

#: Settings of Spark that the service sets itself.
_OURS = ("spark.master", "spark.driver.memory", "spark.executor.memory")


class SparkSettings(Section):
    """Spark jobs. Without this table Spark is not used."""

    #: Master URL: ``local[2]``, ``spark://host:7077``, ``k8s://…``. Its executors must reach the upstream and write
    #: into `directory`.
    master: str = Field(default="local[*]", min_length=1)
    #: Minimum rows of a load by Spark, by the database's estimate; smaller ones are read directly.
    threshold_rows: int = Field(default=1_000_000, ge=0)
    #: Directory of builds until they have been read. Default: below ``[state] directory``.
    directory: Path | None = None
    #: Heap of the driver, which does the work with a local master.
    driver_memory: ByteSize = Field(default=ByteSize(1 << 30), ge=256 << 20)
    #: Heap of each executor.
    executor_memory: ByteSize = Field(default=ByteSize(1 << 30), ge=256 << 20)
    #: Partitions of each table. Default: by its size.
    partitions: int | None = Field(default=None, ge=1, le=100_000)
    #: Priority of the processes (``nice``), below readers and the engine.
    nice: int = Field(default=10, ge=0, le=19)
    #: Further settings of Spark, by name.
    conf: dict[str, str] = Field(default_factory=dict)

    @field_validator("conf")
    @classmethod
    def _has_a_setting_of_its_own(cls, conf: dict[str, str]) -> dict[str, str]:
        for name in conf:
            if name in _OURS:
                raise ValueError(f"{name} must be set as {name.removeprefix('spark.').replace('.', '_')}, not in conf")
            if not name.startswith("spark."):
                raise ValueError(f"{name!r} must be a setting of Spark, whose name begins with 'spark.'")
        return conf
