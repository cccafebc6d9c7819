"""Reads of views at a running service, from two measurements of its counters.

Not here: which views it has (the configuration file and the state directory, `check`).
"""

import json
import time
from typing import TYPE_CHECKING, Any

import httpx

from service.command.remote import Remote

if TYPE_CHECKING:
    from service.engine.views.registry import Definition

_LEAST_S = 1.0


class ReadRates:
    """Counters of a service's views. *State*: the first measurement, made at once, and its time."""

    def __init__(self, url: str, token: str | None) -> None:
        #: Why there are no measurements.
        self.problem: str | None = None
        self._url = url
        self._remote = Remote(url, token)
        self._began = time.monotonic()
        self._first = self._measured()

    def views(self) -> "list[Definition]":
        """Returns the views that were put over HTTP."""
        from service.engine.views.registry import Definition, Origin, ViewOptions
        from service.settings.view_options import OptionFields

        return [
            Definition(
                view["name"],
                view["sql"],
                Origin.HTTP,
                ViewOptions(**OptionFields.model_validate(view["options"]).options()),
            )
            for view in self._first.values()
            if view["origin"] == Origin.HTTP
        ]

    def per_second(self) -> dict[str, float] | None:
        """Returns the reads per second of each view, over a second at least; None if they cannot be measured."""
        if self.problem is not None:
            return None
        time.sleep(max(0.0, self._began + _LEAST_S - time.monotonic()))
        now, seconds = self._measured(), time.monotonic() - self._began
        rates = {}
        for name, view in now.items():
            if name in self._first:
                # Counters restart with the service.
                rates[name] = max(0.0, (_reads(view) - _reads(self._first[name])) / seconds)
        return rates if self.problem is None else None

    def _measured(self) -> dict[str, Any]:
        try:
            with self._remote.stream("/v1/catalog/views", {}, {"accept": "application/json"}) as response:
                body = response.read()
                if response.is_success:
                    return {view["name"]: view for view in json.loads(body)["views"]}
                self.problem = f"The service at {self._url} answers with status {response.status_code}."
        except (httpx.HTTPError, ValueError) as error:
            self.problem = f"No service answers at {self._url}: {error}."
        return {}


def _reads(view: Any) -> int:
    return int(view["counters"]["hits"]) + int(view["counters"]["misses"])
