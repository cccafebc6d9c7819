"""The documented metrics are those of a service."""

from service.supervisor.admin.metrics_table import DOCUMENT, written


def test_the_document_has_the_metrics_as_they_are() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document == written(document), "python -m service.supervisor.admin.metrics_table"
