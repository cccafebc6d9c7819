"""``python -m helm.settings_schema``: writes into the chart's schema what the service takes as settings and views.

The chart hands such values on as they are. Their schema is made of the service's own models, so that ``helm`` refuses
what the service would refuse, before anything is changed in a cluster.

*Invariants*: what the chart sets itself (`OWNED`) cannot be set beside it.
"""

import json
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ByteSize

from service.settings.auth import JwtSettings
from service.settings.gateway import GatewaySettings
from service.settings.sections import KafkaSettings, ViewSettings
from service.settings.stack import Settings

SCHEMA = Path(__file__).parent / "upquery" / "values.schema.json"
#: Tables, and keys of tables, that come from other values. `spark` needs more than the image has.
OWNED_TABLES = frozenset({"auth", "shard", "spark", "state", "views"})
OWNED: dict[str, frozenset[str]] = {
    "upstream": frozenset({"url", "password", "password_file"}),
    "cdc": frozenset({"source", "kafka", "url", "password", "password_file"}),
    "http": frozenset({"host", "port", "admin_port", "workers"}),
    "engine": frozenset({"shards", "memory", "directory"}),
    "subscriptions": frozenset({"memory"}),
    "access_log": frozenset({"path"}),
    "gateway": frozenset(
        {
            "shards",
            "replicas",
            "address",
            "admin_address",
            "addresses",
            "admin_addresses",
            "admin_token",
            "admin_token_file",
        }
    ),
}
_OWNED_KAFKA = frozenset(
    {
        "bootstrap_servers",
        "topic_prefix",
        "sasl_password",
        "sasl_password_file",
        "ssl_cafile",
        "ssl_certfile",
        "ssl_keyfile",
    }
)
#: As pydantic reads sizes; a number is one of bytes.
_BYTES = {"type": ["integer", "string"], "pattern": r"^[0-9]+(\.[0-9]+)? ?([KMGT]i?)?B$"}
_LEFT_OUT = ("title", "default", "description", "examples", "format", "writeOnly")


def definitions() -> dict[str, Any]:
    """The parts of the schema's ``$defs`` that are the service's."""
    return {
        "settings": _file(Settings),
        "gatewaySettings": _file(GatewaySettings),
        "kafka": _table(KafkaSettings, _OWNED_KAFKA),
        "jwt": _table(JwtSettings),
        "view": _table(ViewSettings, frozenset({"name"})),
    }


def _file(settings: type[BaseModel]) -> dict[str, Any]:
    tables = {name: kind for name, kind in _tables(settings).items() if name not in OWNED_TABLES}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _table(kind, OWNED.get(name, frozenset())) for name, kind in sorted(tables.items())},
    }


def _tables(settings: type[BaseModel]) -> dict[str, type[BaseModel]]:
    found = {}
    for name, field in settings.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                found[name] = kind
    return found


def _table(model: type[BaseModel], owned: frozenset[str] = frozenset()) -> dict[str, Any]:
    schema = model.model_json_schema()
    properties = {
        name: _bytes(given) if model.model_fields[name].annotation is ByteSize else _plain(given)
        for name, given in schema["properties"].items()
        if name not in owned
    }
    table = {"type": "object", "additionalProperties": False, "properties": properties}
    required = [name for name in schema.get("required", ()) if name not in owned]
    return table | ({"required": required} if required else {})


def _bytes(given: dict[str, Any]) -> dict[str, Any]:
    bounds = {"ge": "minimum", "le": "maximum"}
    return _BYTES | {bounds[key]: value for key, value in given.items() if key in bounds}


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    """Without what only documents, and without null, which TOML does not have."""
    kept = {key: value for key, value in given.items() if key not in _LEFT_OUT}
    kinds = [kind for kind in kept.pop("anyOf", ()) if kind != {"type": "null"}]
    assert len(kinds) <= 1, given
    return kept | (_plain(kinds[0]) if kinds else {})


def renewed(text: str) -> str:
    """The schema's text with the service's settings as they are now."""
    schema = json.loads(text)
    schema["$defs"] |= definitions()
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(renewed(SCHEMA.read_text(encoding="utf-8")), encoding="utf-8")
