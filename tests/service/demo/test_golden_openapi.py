"""The document in the repository is the one that the service serves."""

import json
from pathlib import Path

import pytest

from service.demo.golden_openapi import golden_openapi
from service.demo.views import VIEWS

pytestmark = pytest.mark.postgres
GOLDEN = Path(__file__).resolve().parents[3] / "api_schemas" / "openapi.json"


def test_the_document_is_current() -> None:
    current = golden_openapi()
    assert {f"/v1/views/{view.name}" for view in VIEWS} <= set(json.loads(current)["paths"])
    assert GOLDEN.read_text(encoding="utf-8") == current, "make openapi writes it anew"
