"""The view registry: what is kept in the state directory, and what is refused."""

from pathlib import Path

import pytest

from service.views import Definition, Origin, RegisteredView, StateError, ViewRegistry

CONFIGURED = Definition("a", "SELECT 1", Origin.CONFIG)
PUT = Definition("b", "SELECT 2", Origin.HTTP)


def registry(directory: Path, *definitions: Definition) -> ViewRegistry:
    filled = ViewRegistry(directory)
    for definition in definitions:
        filled.views[definition.name] = RegisteredView(definition)
    return filled


def test_http_views_are_kept_and_configured_ones_are_not(tmp_path: Path) -> None:
    registry(tmp_path / "new" / "state", CONFIGURED, PUT).save()
    loaded = ViewRegistry(tmp_path / "new" / "state")
    loaded.load([])
    assert {name: view.definition for name, view in loaded.views.items()} == {"b": PUT}


def test_a_name_in_both_places_is_refused(tmp_path: Path) -> None:
    registry(tmp_path, PUT).save()
    with pytest.raises(StateError, match="'b'"):
        ViewRegistry(tmp_path).load([Definition("b", "SELECT 3", Origin.CONFIG)])


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', '{"format": 1, "views": [{"name": 1}]}'])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "views.json").write_text(content)
    with pytest.raises(StateError, match=r"views\.json"):
        ViewRegistry(tmp_path).load([])


def test_another_format_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "views.json").write_text('{"format": 99, "views": []}')
    with pytest.raises(StateError, match="another version"):
        ViewRegistry(tmp_path).load([])


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot be kept"):
        registry(tmp_path / "file" / "state", PUT).save()
