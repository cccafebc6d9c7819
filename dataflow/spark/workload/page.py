"""The model as one self-contained page of HTML.

*Invariants*: text that comes from logs (names of views, texts of keys) is escaped.

Not here: figures (`assemble`).
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape

from dataflow.spark.workload.model import Advice, LogModel, ViewModel

_SHOWN_KEYS = 10
_SHOWN_POINTS = 10
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:900px;margin:2em auto;padding:0 1em}
h1{font-size:1.6em}h2{font-size:1.25em;margin-top:2.2em;border-top:1px solid #ddd;padding-top:1em}h3{font-size:1em}
table{border-collapse:collapse;margin:.8em 0;font-size:.92em}
th,td{padding:.25em .7em;text-align:right;border-bottom:1px solid #e5e5e5}
th:first-child,td:first-child{text-align:left}meter{width:9em;vertical-align:middle}
.advice{background:#fff6e0;padding:.4em .8em;border-left:4px solid #e69f00;margin:.4em 0}
.note{color:#555}code{background:#f3f3f3;padding:0 .25em}
"""


def page(model: LogModel) -> str:
    body = "\n".join([*_summary(model), *_views_table(model), *_of_views(model), *_method(model)])
    head = f'<meta charset="utf-8"><title>Workload</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def size_text(size: float) -> str:
    """Formats bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or abs(size) >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _size(size: float | None) -> str:
    return "-" if size is None else size_text(size)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _bar(share: float) -> str:
    """A share as a number and a bar of that length."""
    return f'{_percent(share)} <meter value="{share:.4f}"></meter>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _advice(advice: Iterable[Advice]) -> str:
    return "".join(f'<p class="advice">{escape(one.text)}</p>' for one in advice)


def _when(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _summary(model: LogModel) -> Iterator[str]:
    yield "<h1>Workload model</h1>"
    yield (
        f"<p>{model.lines:,} reads of {len(model.views)} views, from {_when(model.from_us)} to"
        f" {_when(model.to_us)} UTC: {_number(model.requests_per_s)} keys a second.</p>"
    )
    yield "".join(f'<p class="note">{escape(note)}</p>' for note in model.notes)
    needs = ", ".join(
        f"{percent} %: {size_text(size)}" if size is not None else f"{percent} %: not reachable"
        for percent, size in model.memory_for.items()
    )
    yield (
        f"<p><b>Memory.</b> All keys that were read take {size_text(model.keys_bytes)}, state that cannot be evicted"
        f" {size_text(model.fixed_bytes)}. Figures below are for a budget of {size_text(model.budget_bytes)}, which has"
        f" {_percent(model.hit_rate(model.budget_bytes))} hits on this log from a cold start."
        f" <b>{size_text(model.advised_bytes)}</b> is enough: more adds less than a hundredth of the hits. For shares"
        f" of hits: {needs}.</p>"
    )
    if model.unread_views:
        names = ", ".join(f"<code>{escape(name)}</code>" for name in model.unread_views)
        yield f'<p class="advice">Views without reads: {names}. Dropping them saves their maintenance.</p>'
    if model.drift:
        yield "<h3>Since the last model</h3>" + _advice(model.drift)
    yield _table(
        ("memory budget", "hits, warm", "hits, whole log", "hits of LRU, whole log"),
        [
            (size_text(p.budget_bytes), _bar(p.warm_hit_rate), _percent(p.hit_rate), _percent(p.lru_hit_rate))
            for p in model.curve
        ],
    )
    yield (
        '<p class="note"><i>Warm</i> counts the second half of the log only, when the keys that are read often have'
        " been filled. LRU, least recently used, is the simplest policy, for comparison.</p>"
    )


def _views_table(model: LogModel) -> Iterator[str]:
    yield "<h2>Views</h2>"
    columns = (
        "view",
        "reads/s",
        "keys",
        "read once",
        "skew alpha",
        "hits",
        "upqueries/s",
        "upstream s/s",
        "deltas/saved read",
        "bytes/key",
        "memory",
    )
    rows = []
    for name, view in sorted(model.views.items(), key=lambda item: -item[1].requests):
        rows.append(
            (
                f"<code>{escape(name)}</code>",
                _number(view.requests_per_s),
                _number(view.keys),
                _percent(view.one_hit_share),
                _skew(view),
                _percent(view.hit_rate),
                _number(view.upqueries_per_s),
                "-" if view.upstream_s_per_s is None else f"{view.upstream_s_per_s:.3g}",
                "-" if view.deltas_per_read_saved is None else f"{view.deltas_per_read_saved:.3g}",
                _number(view.key_bytes),
                _size(view.budget_bytes),
            )
        )
    yield _table(columns, rows)
    yield (
        '<p class="note">Hits, upqueries and memory are expected values with the budget, warm. Deltas are changed rows'
        " applied for each hit: the cost of maintenance against its benefit.</p>"
    )


def _skew(view: ViewModel) -> str:
    if view.skew is None:
        return "-"
    return f"{view.skew.alpha:.3f} <small>({view.skew.low:.3f}…{view.skew.high:.3f})</small>"


def _of_views(model: LogModel) -> Iterator[str]:
    for name, view in sorted(model.views.items(), key=lambda item: -item[1].requests):
        yield f"<h2><code>{escape(name)}</code></h2>" + _advice(view.advice)
        yield f"<p>{_outcomes(view)} {_fitted(view)}</p>"
        if len(view.curve) > 2:
            shown = view.curve[:: -(-len(view.curve) // _SHOWN_POINTS)]
            yield _table(
                ("memory for this view alone", "hits (LRU, warm)"),
                [(size_text(size), _bar(rate)) for size, rate in shown],
            )
        needs = " · ".join(f"{percent} %: {_size(size)}" for percent, size in view.memory_for.items())
        yield f'<p class="note">Memory for shares of hits: {needs}</p>'
        yield _hottest(view)


def _outcomes(view: ViewModel) -> str:
    total = sum(view.outcomes.values()) or 1
    shares = ", ".join(f"{_percent(n / total)} {escape(name)}" for name, n in view.outcomes.items())
    return f"{view.requests:,} reads of {view.keys:,} keys, with these outcomes: {shares}."


def _fitted(view: ViewModel) -> str:
    skew = view.skew
    if skew is None:
        return "There are too few keys or reads to estimate the skew."
    good = "follow" if skew.distance < 0.03 else "are near" if skew.distance < 0.1 else "do not follow"
    return (
        f"Reads of keys {good} Zipf's law with alpha = {skew.alpha:.3f} (95 %: {skew.low:.3f} to"
        f" {skew.high:.3f}) over {_number(round(skew.keys))} keys: the largest deviation is {_percent(skew.distance)}"
        " of keys."
    )


def _hottest(view: ViewModel) -> str:
    shown = [
        f"<code>{escape(', '.join('NULL' if t is None else t for t in key))[:80]}</code>"
        for key in view.hottest[:_SHOWN_KEYS]
    ]
    if not any(view.hottest[:1]):
        return ""
    return (
        f"<p><b>Hottest keys</b>: {' '.join(shown)}. {len(view.prewarm):,} keys should be filled before they are read,"
        f" {len(view.pin):,} pinned.</p>"
    )


def _method(model: LogModel) -> Iterator[str]:
    yield "<h2>Method</h2>"
    yield (
        f"<p>Counts are of the whole log. Hit rates come from a simulation of the eviction policy with"
        f" {model.sampled['reads']:,} reads of {model.sampled['keys']:,} keys, a weighted sample, and memories of"
        f" {len(model.curve)} sizes. The skew is a maximum-likelihood estimate from the numbers of keys by number of"
        " reads; its interval is from a parametric bootstrap.</p>"
    )
    rows = [(size_text(c.memory_bytes), _percent(c.exact), _percent(c.sampled)) for c in model.check]
    yield _table(("memory for keys", "LRU, exact, on the sample", "LRU, from a part of the sample"), rows)
