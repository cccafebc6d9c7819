"""The engine by itself: changes a second in the vote dataflow, in batches of 100, with and without leaf commits."""

from load.figures.micro_benchmark import run_micro
from load.report.figures import Figure, Measurement, Result

BENCH = "engine"


def run(cores: tuple[int, int] | None) -> list[Result]:
    """Run the benchmark in a process of its own, on one core."""
    rates = run_micro("vote_dataflow", cores)
    pure, uniform, committed = [Measurement.of(rates[name]) for name in ("pure", "uniform", "committed")]
    return [
        Figure(BENCH, "engine, changes in batches of 100", pure, "/s", 100_000, detail="Engine.step alone, Zipf 1.08"),
        Figure(
            BENCH, "the same, all stories alike", uniform, "/s", detail="nearly each vote of a batch is another story's"
        ),
        Figure(BENCH, "engine with leaf commits", committed, "/s", detail="a commit for each batch, Zipf 1.08"),
    ]
