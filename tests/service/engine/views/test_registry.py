"""The view registry: what is kept in the state directory, and what is refused."""

from pathlib import Path

import pytest

from service.engine.views.registry import Definition, Origin, RegisteredView, StateError, ViewRegistry

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
    with pytest.raises(StateError, match="cannot be written"):
        registry(tmp_path / "file" / "state", PUT).save()


def test_it_is_kept_when_views_were_changed(tmp_path: Path) -> None:
    views = registry(tmp_path, PUT)
    views.note_change("b", 5)
    views.note_change("gone", 7)
    views.save()
    loaded = ViewRegistry(tmp_path)
    loaded.load([])
    assert loaded.changed_ms == {"b": 5, "gone": 7}


def test_a_change_is_later_than_the_one_before_whatever_clocks_say() -> None:
    views = registry(Path("nowhere"), PUT)
    for at_ms, noted in ((50, 50), (20, 51), (51, 52), (60, 60)):
        views.note_change("b", at_ms)
        assert views.changed_ms["b"] == noted


def test_of_dropped_views_the_last_ones_are_remembered() -> None:
    views = registry(Path("nowhere"), PUT)
    views.note_change("b", 1)
    for number in range(1200):
        views.note_change(f"gone_{number}", 10 + number)
    assert len(views.changed_ms) == 1001
    assert {"b", "gone_200", "gone_1199"} <= views.changed_ms.keys()


def test_services_forget_the_same_views_whoever_tells_whom(tmp_path: Path) -> None:
    """Many were dropped at one time; and one after all others."""
    at_ms = [10 + number // 100 for number in range(1200)]
    sites = [ViewRegistry(tmp_path / str(number)) for number in range(2)]
    for number in range(1200):
        for site in sites if 100 < number < 1100 else [sites[number % 2]]:
            site.note_change(f"gone_{number}", at_ms[number])
    sites[0].note_change("last", 5000)
    for _ in range(2):
        for site, other in (sites, sites[::-1]):
            for name, at in list(other.changed_ms.items()):
                if site.known_ms(name) < at and not site.is_forgotten(name, at):
                    site.note_change(name, at)
    assert sites[0].changed_ms == sites[1].changed_ms
    assert len(sites[0].changed_ms) == 1000
    assert sites[1].changed_ms["last"] == 5000
    assert not any(site.is_forgotten("new", 6000) for site in sites)


def test_a_file_of_before_is_read(tmp_path: Path) -> None:
    (tmp_path / "views.json").write_text('{"format": 1, "views": [{"name": "b", "sql": "SELECT 2"}]}')
    loaded = ViewRegistry(tmp_path)
    loaded.load([])
    assert (loaded.views["b"].definition, loaded.changed_ms) == (PUT, {})
