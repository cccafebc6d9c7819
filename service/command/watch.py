"""``upquery view watch``: shows the rows of a view and their changes until Ctrl-C."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import typer
from rich.markup import escape

from service.command.options import URL, JsonOption, NameArgument, TokenOption, UrlOption, print_json
from service.command.remote import Remote, errors, output, parameters_of, print_rows

_PAUSE_S = 1.0
_GONE = 410


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event; `id` is the position from which a client resumes."""

    kind: str
    id: str
    data: dict[str, Any]


def watch_view(
    name: NameArgument,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="key=value…", help="Parameters of the view.")] = None,
    most: Annotated[int | None, typer.Option("--events", min=1, help="Stop after this many events.")] = None,
    url: UrlOption = URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the rows of a view and follow their changes. A lost connection is reopened and resumes where it ended."""
    remote = Remote(url, token, as_json=as_json)
    path = f"/v1/views/{quote(name, safe='')}/subscribe"
    try:
        for seen, event in enumerate(_followed(remote, path, parameters_of(arguments)), 1):
            if as_json:
                print_json({"event": event.kind, "id": event.id, **event.data})
            else:
                _show(event)
            if seen == most:
                return
    except KeyboardInterrupt:
        return


def _followed(remote: Remote, path: str, parameters: dict[str, list[str]]) -> Iterator[Event]:
    """Yield events, reconnecting as needed. An error response on the first connection ends the command."""
    last_id, connected = "", False
    while True:
        try:
            with remote.stream(path, parameters, {"last-event-id": last_id} if last_id else {}) as response:
                if response.status_code == _GONE and last_id:
                    # The missed changes are no longer logged: start again with all rows.
                    last_id = ""
                    continue
                if response.is_error and not (connected and response.status_code >= 500):
                    remote.refuse(response)
                connected = True
                for event in events_of(response.iter_lines() if response.is_success else ()):
                    last_id = event.id
                    yield event
        except httpx.HTTPError as error:
            if not connected:
                remote.unreachable(error)
        errors.print("[dim]The connection was lost; reconnecting.[/]")
        time.sleep(_PAUSE_S)


def events_of(lines: Iterable[str]) -> Iterator[Event]:
    """Parse the lines of an event stream; an id applies until the next one."""
    kind, number = "message", ""
    data: list[str] = []
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line and data:
            yield Event(kind, number, json.loads("\n".join(data)))
        if not line:
            kind, data = "message", []
        elif field == "event":
            kind = value
        elif field == "id":
            number = value
        elif field == "data":
            data.append(value)


def _show(event: Event) -> None:
    data = event.data
    if event.kind == "snapshot":
        print_rows(data["rows"])
        output.print(f"[dim]{len(data['rows'])} rows at {data['version']}[/]")
    elif event.kind == "change":
        for row in data["removed"]:
            output.print(f"[red]- {_row(row)}[/]", soft_wrap=True)
        for row in data["added"]:
            output.print(f"[green]+ {_row(row)}[/]", soft_wrap=True)
        output.print(f"[dim]at {data['version']}[/]")
    elif event.kind == "must-refetch":
        output.print(f"[dim]{escape(data['reason'])}[/]")


def _row(row: dict[str, Any]) -> str:
    return escape(json.dumps(row, ensure_ascii=False))
