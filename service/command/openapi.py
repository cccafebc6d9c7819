"""``upquery openapi``: the OpenAPI document of a running service."""

from typing import Annotated

import typer

from service.command.options import URL, TokenOption, print_json
from service.command.remote import Remote


def openapi(
    url: Annotated[str, typer.Option(help="URL of the service's data port.", envvar="UPQUERY_URL")] = URL,
    token: TokenOption = None,
) -> None:
    """Print the OpenAPI document with the registered views."""
    print_json(Remote(url, token).get("/openapi.json"))
