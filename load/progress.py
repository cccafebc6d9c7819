"""Progress messages, and their console: a line that changes on a terminal, occasional lines elsewhere."""

from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

#: Where the console is no terminal, progress is printed that often.
_EVERY_S = 10.0
#: What progress bars are drawn with: a text with one of them is progress, not news.
BAR_DONE, BAR_LEFT = "━", "┄"
#: Shows a progress message.
Tell = Callable[[str], None]


def number(value: float) -> str:
    """Three significant digits, thousands separated."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def bar(share: float, width: int = 20) -> str:
    """Draws a progress bar."""
    return (BAR_DONE * round(min(1.0, share) * width)).ljust(width, BAR_LEFT)


class Narrator:
    """A `Tell` that shows on a console while entered."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
        )
        self._task = self._progress.add_task("starting …", total=None)
        self._told_at = monotonic()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def __call__(self, text: str) -> None:
        self._progress.update(self._task, description=escape(text))
        is_news = BAR_DONE not in text and BAR_LEFT not in text
        if is_news or (not self._console.is_terminal and monotonic() - self._told_at >= _EVERY_S):
            self._told_at = monotonic()
            self._console.print(escape(text), highlight=False, soft_wrap=True)
