"""A run's directory goes with the run; what a killed one left goes with the next."""

from pathlib import Path

from service.protocol.run_directory import PREFIX, RunDirectory


def test_it_is_gone_after_close(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert run.path.parent == tmp_path
    assert run.path.stat().st_mode & 0o077 == 0
    run.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_removed_and_a_live_one_is_not(tmp_path: Path) -> None:
    abandoned = tmp_path / f"{PREFIX}old"
    abandoned.mkdir()
    (abandoned / "lock").touch()
    (abandoned / "data").write_text("x")
    alive = RunDirectory(tmp_path)
    assert not abandoned.exists()
    other = RunDirectory(tmp_path)
    assert alive.path.exists()
    other.close()
    alive.close()


def test_other_directories_are_left_alone(tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    RunDirectory(tmp_path).close()
    assert stranger.exists()


def test_a_directory_that_a_child_of_a_killed_run_made_again_is_removed(tmp_path: Path) -> None:
    """Such a one has no lock."""
    (tmp_path / f"{PREFIX}old" / "build-1").mkdir(parents=True)
    RunDirectory(tmp_path).close()
    assert list(tmp_path.iterdir()) == []
