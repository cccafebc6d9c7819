"""`api_schemas/openapi.json` is the document of the fixed part and the demo's views.

``UPQUERY_GOLDEN=write python -m pytest tests/contract`` writes it anew; look at the difference before you commit it.
"""

import asyncio
import json
import os
from pathlib import Path

import psycopg
import pytest

import api_schemas
from dataflow.plan.nullability import never_null_output
from dataflow.schema import Catalog
from dataflow.sql import plan_view
from dataflow.types import ViewId
from service.demo.loading import create_tables
from service.demo.views import VIEWS
from service.engine.databases.postgres.catalog import load_catalog
from service.leaf_store.catalog import describe
from service.leaf_store.writer import LeafWriter
from service.protocol.engine_client import EngineClient
from service.settings.sections import HttpSettings
from service.worker.reads.reads import Reads
from service.worker.reads.view_reads import ViewReads
from service.worker.routes.documented import documented_app
from service.worker.routes.openapi import document
from tests.fixtures.postgres import Database

GOLDEN = Path(api_schemas.__file__).parent / "openapi.json"


def catalog_of(url: str) -> Catalog:
    """The demo's tables, as the service reads them."""

    async def load() -> Catalog:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            return await load_catalog(connection)

    with psycopg.connect(url, autocommit=True) as connection:
        create_tables(connection)
    return asyncio.run(load())


@pytest.mark.postgres
def test_golden_document(database: Database, tmp_path: Path) -> None:
    catalog = catalog_of(database.url)
    plans = [plan_view(view.name, view.sql.strip(), catalog) for view in VIEWS]
    infos = [
        describe(ViewId(n), plan, "[]", "ready", True, never_null=never_null_output(plan, catalog))
        for n, plan in enumerate(plans)
    ]
    writer = LeafWriter(tmp_path)
    reads = Reads(writer.reader, EngineClient(tmp_path / "none"), HttpSettings())
    app = documented_app(reads, ViewReads(reads))
    made = json.dumps(document(app, infos), indent=2, ensure_ascii=False) + "\n"
    writer.close()
    if os.environ.get("UPQUERY_GOLDEN") == "write":
        GOLDEN.write_text(made, encoding="utf-8")
    assert json.loads(made) == json.loads(GOLDEN.read_text(encoding="utf-8"))
