"""``upquery view …``: views of a running service, over HTTP."""

import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from rich.markup import escape
from rich.table import Table

from service.command.options import (
    ADMIN_URL,
    URL,
    USAGE,
    AdminOption,
    JsonOption,
    NameArgument,
    TokenOption,
    UrlOption,
    print_json,
)
from service.command.remote import Remote, errors, output, parameters_of, print_rows
from service.command.watch import watch_view

views_app = typer.Typer(help="Manage and read the views of a running service.", no_args_is_help=True)


def _path(name: str) -> str:
    return f"/v1/catalog/views/{quote(name, safe='')}"


@views_app.command("list")
def list_views(admin: AdminOption = ADMIN_URL, token: TokenOption = None, as_json: JsonOption = False) -> None:
    """List the registered views."""
    views = Remote(admin, token, as_json=as_json).get("/v1/catalog/views")["views"]
    if as_json:
        print_json(views)
        return
    table = Table("view", "parameters", "tier", "status", "hits", "misses", "keys", "MB")
    for view in views:
        counters = view["counters"]
        table.add_row(
            view["name"],
            ", ".join(f"{p['name']} {p['type']}" for p in view["parameters"]),
            view["materialization"] or view["tier"] or "",
            view["status"] if view["status"] == "ready" else escape(f"{view['status']}: {view['reason']}"),
            *(str(counters[c]) for c in ("hits", "misses", "covered_keys")),
            f"{(counters['leaf_bytes'] + counters['inner_bytes']) / 1e6:.1f}",
        )
    output.print(table)


@views_app.command("put")
def put_view(
    name: NameArgument,
    file: Annotated[Path, typer.Argument(help="File with one SELECT; - reads standard input.")],
    create: Annotated[bool, typer.Option("--create", help="Fail if the view exists.")] = False,
    tier: Annotated[
        str | None, typer.Option(help="incremental, refresh or ttl. Fail if the view cannot be in this tier.")
    ] = None,
    ttl: Annotated[float | None, typer.Option(help="Seconds after which answers of the ttl tier expire.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Materialize the view fully.")] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="A view option as KEY=VALUE, such as on_miss=forward. Repeatable."),
    ] = None,
    admin: AdminOption = ADMIN_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Register or replace a view."""
    headers = {"if-none-match": "*"} if create else {}
    options = {"tier": tier, "ttl": ttl, "materialization": "full" if full else None}
    for given in option or ():
        key, separator, value = given.partition("=")
        if not separator:
            raise typer.BadParameter(f"{given!r} must have the form KEY=VALUE.", param_hint="--option")
        options[key] = value
    response = Remote(admin, token, as_json=as_json).put(_path(name), {"sql": _sql(file), **options}, headers)
    if as_json:
        print_json(response.json())
        return
    done = {200: "is ready", 201: "is registered", 202: "is being built"}.get(response.status_code, "was put")
    output.print(f"View [bold]{name}[/] {done}.")


def _sql(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        errors.print(f"[bold red]Error:[/] {file} cannot be read: {error}")
        raise typer.Exit(USAGE) from None


@views_app.command("drop")
def drop_view(
    name: NameArgument, admin: AdminOption = ADMIN_URL, token: TokenOption = None, as_json: JsonOption = False
) -> None:
    """Drop a view."""
    Remote(admin, token, as_json=as_json).delete(_path(name))
    if as_json:
        print_json({"dropped": name})
    else:
        output.print(f"View [bold]{name}[/] is dropped.")


@views_app.command("explain")
def explain_view(
    name: NameArgument,
    dot: Annotated[bool, typer.Option("--dot", help="Print the plan as a Graphviz graph.")] = False,
    admin: AdminOption = ADMIN_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the plan of a view: nodes, lookups, missing indexes."""
    remote = Remote(admin, token, as_json=as_json)
    if as_json:
        print_json(remote.get(f"{_path(name)}/plan"))
    else:
        accept = "text/vnd.graphviz" if dot else "text/plain"
        sys.stdout.write(remote.get(f"{_path(name)}/plan", accept=accept))


@views_app.command("get")
def get_view(
    name: NameArgument,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="key=value…", help="Parameters of the view.")] = None,
    url: UrlOption = URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read a view."""
    parameters = parameters_of(arguments)
    answer = Remote(url, token, as_json=as_json).get(f"/v1/views/{quote(name, safe='')}", parameters)
    if as_json:
        print_json(answer)
        return
    print_rows(answer["rows"])
    at = f" at {answer['version']}" if answer["version"] else ""
    output.print(f"[dim]{len(answer['rows'])} rows{at}[/]")


views_app.command("watch")(watch_view)
