"""Shows what the simulation did, summed over its parts, at the end of the tests."""

from collections import Counter
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line of counters per 1,000 steps."""
    total: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "simulation":
                total.update(value)
    if steps := total.pop("steps", 0):
        terminalreporter.section("simulation")
        rates = ", ".join(f"{name} {1000 * n / steps:.2f}" for name, n in sorted(total.items()))
        terminalreporter.write_line(f"{steps} steps without a difference; per 1,000 steps: {rates}")
