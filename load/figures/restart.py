"""A checkpoint of the engine and its leaf store: CPU time of writing and of restoring it, for 1 GiB of state."""

from load.figures.micro_benchmark import run_micro
from load.report.figures import Figure, Measurement, Result

BENCH = "restart"


def run(cores: tuple[int, int] | None) -> list[Result]:
    """Run the benchmark in a process of its own, on one core."""
    found = run_micro("checkpoint", cores)
    mib, file = found["state_bytes"] / 2**20, found["file_bytes"] / 2**20
    state = f"{found['keys']:,} keys, {mib:.0f} MiB of state, {file:.0f} MiB on disk"
    restored, written, ratio = [
        Measurement.of(found[name]) for name in ("restore_s_per_gib", "write_s_per_gib", "restore_ratio")
    ]
    return [
        Figure(BENCH, "restoring 1 GiB of state, CPU", restored, "s", 10, more_is_better=False, detail=state),
        Figure(
            BENCH,
            "restoring, against unpacking the file",
            ratio,
            "x",
            detail="the peer reads, checks and unpacks all frames, and stores nothing",
        ),
        Figure(BENCH, "writing 1 GiB of state, CPU", written, "s", detail=state),
    ]
