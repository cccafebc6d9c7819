"""A gateway's settings: where the pods are, said by a template or one by one, and followed while it runs."""

import asyncio
import os
import re
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from service.settings.errors import SettingsError
from service.settings.gateway import GatewaySettings, load_gateway_settings
from service.settings.gateway_file import GatewayFile


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    return path


def test_a_template_says_where_the_pods_are(tmp_path: Path) -> None:
    gateway = load_gateway_settings(config(tmp_path, "[gateway]\nshards = 2\nreplicas = 2\n")).gateway
    assert gateway.pods == (
        ("http://upquery-0-0.upquery-headless:8080", "http://upquery-1-0.upquery-headless:8080"),
        ("http://upquery-0-1.upquery-headless:8080", "http://upquery-1-1.upquery-headless:8080"),
    )
    assert gateway.admin_pods[1][0] == "http://upquery-0-1.upquery-headless:8081"


LISTED = """
[gateway]
shards = 2
addresses = [["http://127.0.0.1:1"], ["http://127.0.0.1:2/", "http://127.0.0.1:3"]]
admin_addresses = [["http://127.0.0.1:4"], ["http://127.0.0.1:5", "http://127.0.0.1:6"]]
"""


def test_shards_may_have_different_numbers_of_replicas(tmp_path: Path) -> None:
    gateway = load_gateway_settings(config(tmp_path, LISTED)).gateway
    assert gateway.pods == (("http://127.0.0.1:1",), ("http://127.0.0.1:2", "http://127.0.0.1:3"))


def test_everything_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPQUERY_GATEWAY__SHARDS", "1")
    monkeypatch.setenv("UPQUERY_GATEWAY__ADDRESSES", '[["http://127.0.0.1:1"]]')
    monkeypatch.setenv("UPQUERY_GATEWAY__ADMIN_ADDRESSES", '[["http://127.0.0.1:2"]]')
    assert load_gateway_settings(None).gateway.pods == (("http://127.0.0.1:1",),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "No shards are configured"),
        ("[gateway]\nreplicas = 2\n", "No shards are configured"),
        ("[gateway]\nshards = 65\n", "'gateway.shards'"),
        ("[gateway]\nshards = 2\nreplica = 1\n", "Did you mean 'replicas'"),
        ("[gateway]\nshards = 2\n[engine]\nshards = 2\n", "Unknown setting 'engine'"),
        ('[gateway]\nshards = 2\naddress = "http://pods:8080"\n', "address must contain {shard}"),
        (
            "[gateway]\nshards = 2\nreplicas = 2\n"
            'address = "http://a-{shard}:1"\nadmin_address = "http://a-{shard}:2"\n',
            "address must contain {replica}",
        ),
        ('[gateway]\nshards = 1\naddress = "https://pods"\n', "it must be an http URL"),
        ('[gateway]\nshards = 1\naddress = "http://pods/v1"\n', "scheme, host and port"),
        ('[gateway]\nshards = 1\naddress = "http://pods:80800"\n', "http://pods:80800 must have a port from 1"),
        ('[gateway]\nshards = 7\naddress = "http://pods:6553{shard}"\n', "http://pods:65536 must have a port from 1"),
        ('[gateway]\nshards = 1\nadmin_address = "http://pods:{shard}"\n', "http://pods:0 must have a port from 1"),
        ('[gateway]\nshards = 1\naddress = "http://pods:abc"\n', "http://pods:abc must have a valid host and port"),
        ('[gateway]\nshards = 1\naddress = "http://a b:80"\n', "http://a b:80 must have a valid host and port"),
        ('[gateway]\nshards = 1\naddress = "http://a..b:80"\n', "http://a..b:80 must have a valid host and port"),
        ('[gateway]\nshards = 1\naddress = "http://[::1:80"\n', "Invalid IPv6 URL"),
        (LISTED.replace("127.0.0.1:3", "pod-{replica}"), "http://pod-{replica} must have a valid host and port"),
        (LISTED.replace("shards = 2", "shards = 3"), "for each of the 3 shards"),
        (LISTED.replace(', "http://127.0.0.1:6"', ""), "the same number of replicas"),
        (LISTED.replace("admin_addresses", "# admin_addresses"), "both addresses and admin_addresses"),
        ('[gateway]\nshards = 2\n[http]\nhost = "0.0.0.0"\n', "not authenticated"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        load_gateway_settings(config(tmp_path, text))


@pytest.mark.parametrize("place", ["127.0.0.1", "Pods.example.:65535", "[::1]:80", "pods", "pod_{shard}:808{shard}"])
def test_a_pod_may_be_at(tmp_path: Path, place: str) -> None:
    text = f'[gateway]\nshards = 1\naddress = "http://{place}"\n'
    assert load_gateway_settings(config(tmp_path, text)).gateway.pods == ((f"http://{place.format(shard=0)}",),)


def test_the_token_for_the_pods_comes_from_a_file_and_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hush\n")
    text = f'[gateway]\nshards = 1\nadmin_token_file = "{tmp_path / "token"}"\n'
    assert load_gateway_settings(config(tmp_path, text)).gateway.token() == "hush"
    said = load_gateway_settings(config(tmp_path, '[gateway]\nshards = 1\nadmin_token = "hush"\n'))
    assert "hush" not in repr(said)


def following(tmp_path: Path, text: str) -> tuple[Path, GatewayFile]:
    path = config(tmp_path, text)
    return path, GatewayFile(path, load_gateway_settings(path))


def test_where_the_pods_are_is_followed(tmp_path: Path) -> None:
    path, follows = following(tmp_path, "[gateway]\nshards = 2\n")
    assert not follows.look()
    path.write_text("[gateway]\nshards = 3\nreplicas = 2\n")
    assert follows.look()
    assert [len(replicas) for replicas in follows.settings.gateway.pods] == [2, 2, 2]
    assert not follows.look()


def test_what_was_changed_before_somebody_looked_is_followed(tmp_path: Path) -> None:
    path = config(tmp_path, "[gateway]\nshards = 2\n")
    settings = load_gateway_settings(path)
    path.write_text("[gateway]\nshards = 3\n")
    follows = GatewayFile(path, settings)
    assert follows.look()
    assert follows.settings.gateway.shards == 3


def test_a_link_that_points_elsewhere_is_followed(tmp_path: Path) -> None:
    for name, shards in (("one", 2), ("other", 3)):
        (tmp_path / name).mkdir()
        config(tmp_path / name, f"[gateway]\nshards = {shards}\n")
    data = tmp_path / "data"
    data.symlink_to("one")
    follows = GatewayFile(data / "gateway.toml", load_gateway_settings(data / "gateway.toml"))
    (tmp_path / "new").symlink_to("other")
    os.replace(tmp_path / "new", data)
    assert follows.look()
    assert follows.settings.gateway.shards == 3


def test_a_file_that_cannot_be_used_changes_nothing_and_is_said_once(tmp_path: Path) -> None:
    path, follows = following(tmp_path, "[gateway]\nshards = 2\n")
    path.write_text("[gateway]\nshards = 200\n")
    with capture_logs() as logs:
        assert not follows.look()
        assert not follows.look()
        path.unlink()
        assert not follows.look()
        assert not follows.look()
    assert [line["log_level"] for line in logs] == ["error", "error"]
    assert follows.settings.gateway.shards == 2
    path.write_text("[gateway]\nshards = 4\n")
    assert follows.look()
    assert follows.settings.gateway.shards == 4


def test_following_goes_on_when_a_change_could_not_be_taken_over(tmp_path: Path) -> None:
    path, follows = following(tmp_path, "[gateway]\nshards = 2\n")
    seen: list[int] = []

    def changed(settings: GatewaySettings) -> None:
        seen.append(settings.gateway.shards)
        if seen == [3]:
            path.write_text("[gateway]\nshards = 40\n")
            raise ValueError("not these")

    async def main() -> None:
        task = asyncio.ensure_future(follows.run(changed, 0.0))
        path.write_text("[gateway]\nshards = 3\n")
        async with asyncio.timeout(10):
            while seen != [3, 40] and not task.done():
                await asyncio.sleep(0)
        task.cancel()

    with capture_logs() as logs:
        asyncio.run(main())
    assert seen == [3, 40]
    assert [line["log_level"] for line in logs] == ["error"]


def test_other_settings_wait_for_a_restart_and_that_is_said(tmp_path: Path) -> None:
    path, follows = following(tmp_path, "[gateway]\nshards = 2\n")
    with capture_logs() as logs:
        path.write_text("[gateway]\nshards = 2\nmove_s = 5\n[http]\nport = 9999\n")
        assert not follows.look()
        path.write_text("[gateway]\nshards = 3\nmove_s = 5\n[http]\nport = 9999\n# twice\n")
        assert follows.look()
    assert [line["settings"] for line in logs] == [["gateway.move_s", "http.port"]]
    settings = follows.settings
    assert (settings.gateway.shards, settings.gateway.move_s, settings.http.port) == (3, 60.0, 8080)
