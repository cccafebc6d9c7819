"""``upquery audit``: compares the cached keys of a running service with its database and shows the differences.

Exit codes: 0 nothing differs, 1 something does (or the audit failed), 2 usage.
"""

import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.command.options import ADMIN_URL, AdminOption, JsonOption, TokenOption, print_json
from service.command.remote import Remote

output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

#: Interval between two requests for the audit's progress.
_LOOK_S = 0.2


def audit(
    view: Annotated[
        list[str] | None, typer.Option(help="Audit this view only. Repeatable. Default: all views.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Compare this many random keys of each view. Default: all keys.")
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark/--direct", help="Read the database with Spark, or over a few connections.")
    ] = False,
    shown: Annotated[int, typer.Option(min=0, max=1000, help="Maximum number of differences shown.")] = 20,
    limit_s: Annotated[float, typer.Option("--limit", min=1, help="Time limit of the audit in seconds.")] = 600.0,
    admin: AdminOption = ADMIN_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare cached keys with the database at one snapshot. Exit code 1: a key differs, or the audit failed."""
    remote = Remote(admin, token, as_json=as_json)
    wanted: dict[str, Any] = {"way": "spark" if spark else "direct", "shown": shown, "time_s": limit_s}
    if view:
        wanted["views"] = view
    if sample is not None:
        wanted["sample"] = sample
    found: dict[str, Any] = remote.post("/v1/audit", wanted)
    with errors.status("auditing") as status:
        while found["status"] == "running":
            time.sleep(_LOOK_S)
            found = remote.get("/v1/audit")
            share = f" {found['done']} of {found['keys']}" if found["keys"] else ""
            status.update(escape(f"auditing: {found['text']}{share}"))
    if as_json:
        print_json(found)
    else:
        _show(found)
    differs = any(result["differences"] for result in found["views"])
    raise typer.Exit(1 if differs or found["status"] != "done" else 0)


def _show(found: dict[str, Any]) -> None:
    if found["status"] != "done":
        errors.print("[bold red]The audit failed.[/]", escape(str(found["reason"] or found["text"])), soft_wrap=True)
        return
    table = Table("view", "tier", "keys", "compared", "differences", "not compared")
    for result in found["views"]:
        count = result["differences"]
        table.add_row(
            escape(result["view"]),
            result["tier"],
            f"{result['keys']:,}",
            f"{result['compared']:,}",
            f"[bold red]{count:,}[/]" if count else "0",
            escape(_reasons(result["skipped"])),
        )
    output.print(table)
    for difference in found["differences"]:
        _show_difference(difference)
    total = sum(result["differences"] for result in found["views"])
    compared = sum(result["compared"] for result in found["views"])
    at = f" at {found['version']}" if found["version"] else ""
    if total:
        output.print(f"[bold red]{total:,} of {compared:,} keys differ{at}.[/]")
    else:
        output.print(f"[bold green]Nothing differs[/] in {compared:,} keys{at}, after {found['seconds']:.1f} s.")


def _reasons(skipped: dict[str, int]) -> str:
    return "; ".join(f"{count:,}: {reason}" if count else reason for reason, count in skipped.items())


def _show_difference(difference: dict[str, Any]) -> None:
    key = ", ".join("NULL" if text is None else text for text in difference["key"])
    output.print(f"[bold]{escape(difference['view'])}[/] ({escape(key)})", soft_wrap=True)
    for kind, colour in (("missing", "green"), ("extra", "red")):
        rows, count = difference[kind], difference[f"{kind}_rows"]
        for row in rows:
            output.print(f"  [{colour}]{kind}[/] {escape(row)}", soft_wrap=True)
        if count > len(rows):
            output.print(f"  [{colour}]{kind}[/] … {count - len(rows):,} more")
    if difference["reordered"]:
        output.print("  the same rows in another order")
