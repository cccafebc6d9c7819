"""Settings: one file, the environment over it, and no key that nobody knows."""

import re
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from service.settings.errors import SettingsError
from service.settings.secrets import connection_url, replication_password, upstream_password
from service.settings.stack import Settings, load_settings

URL = '[upstream]\nurl = "postgresql://app@db/app"\n'


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "upquery.toml"
    path.write_text(text)
    return path


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPQUERY_HTTP__PORT", "9000")
    settings = load_settings(config(tmp_path, URL + "[http]\nport = 7000\nworkers = 2\n"))
    assert (settings.http.port, settings.http.workers) == (9000, 2)


def test_everything_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPQUERY_UPSTREAM__URL", "postgresql://app@db/app")
    monkeypatch.setenv("UPQUERY_ENGINE__MEMORY", "2GiB")
    settings = load_settings(None)
    assert settings.engine.memory == 2 << 30


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "No upstream database is configured"),
        (URL + "[htp]\nport = 1\n", "Did you mean 'http'"),
        (URL + "[http]\nprot = 1\n", "Did you mean 'port'"),
        (URL + '[[views]]\nname = "a"\nsqll = "SELECT 1"\n', "Did you mean 'sql'"),
        (URL + "[http]\nport = 70000\n", "'http.port'"),
        (URL + '[engine]\neviction = "lru"\n', "Unknown setting 'engine.eviction'"),
        (URL + f'[engine]\ndirectory = "/{"x" * 80}"\n', "must have at most 70 bytes"),
        (URL + '[http]\nhost = "0.0.0.0"\n', "not authenticated"),
        ('[upstream]\nurl = "oracle://app@db/app"\n', "postgresql://"),
        (URL + '[[views]]\nname = "a"\nsql = "x"\n[[views]]\nname = "a"\nsql = "y"\n', "two views named 'a'"),
        (URL + '[[views]]\nname = "a b"\nsql = "x"\n', "views.0.name"),
        (URL + '[spark]\nconf = {"spark.driver.memory" = "4g"}\n', "spark.driver.memory must be set as driver_memory"),
        (URL + '[spark]\nconf = {"driver" = "4g"}\n', "begins with 'spark.'"),
        (URL + "[spark]\nmasters = 1\n", "Did you mean 'master'"),
        (URL + "[shard]\nnumber = 2\nof = 2\n", "number must be at most 1, since of is 2: got 2"),
        (URL + "[shard]\nof = 65\n", "'shard.of'"),
        (URL + "[shard]\nof = 2\n[engine]\nshards = 2\n", "[engine] shards must be 1"),
        ("[upstream\n", "not valid TOML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        load_settings(config(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nowhere"):
        load_settings(tmp_path / "nowhere.toml")


KAFKA = '[cdc]\nsource = "kafka"\n[cdc.kafka]\nbootstrap_servers = "127.0.0.1:9092"\ntopic_prefix = "app"\n'


def test_debezium_s_topics_are_a_source(tmp_path: Path) -> None:
    kafka = load_settings(config(tmp_path, URL + KAFKA)).cdc.kafka
    assert kafka is not None
    assert (kafka.topic_prefix, kafka.security_protocol) == ("app", "PLAINTEXT")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[cdc]\nsource = "kafka"\n', r"\[cdc.kafka\] is missing: set its bootstrap_servers"),
        (KAFKA.replace('source = "kafka"', 'source = "direct"'), 'set source = "kafka"'),
        (KAFKA + 'topic_prefx = "app"\n', "Did you mean 'topic_prefix'"),
        (KAFKA.replace("topic_prefix", "# topic_prefix"), "cdc.kafka.topic_prefix"),
    ],
)
def test_half_a_kafka_source_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load_settings(config(tmp_path, URL + text))


@pytest.mark.parametrize(
    "scheme",
    [
        "postgresql",
        "postgres",
        "postgresql+psycopg",
        "mariadb",
        "mysql",
        "mariadb+pymysql",
        "mysql+pymysql",
        "MySQL",
    ],
)
def test_upstreams_by_their_scheme(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}://app@127.0.0.1/app"
    assert load_settings(config(tmp_path, f'[upstream]\nurl = "{url}"\n')).upstream.url == url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("oracle://app:hush@db/app", "unsupported scheme 'oracle'"),
        ("app:hush@db/app", "unsupported scheme ''"),
        ("postgresql+psycopg2://app:hush@db/app", r"driver 'psycopg2'\. Use postgresql\+psycopg://, or postgresql://"),
        ("postgresql+pymysql://app:hush@db/app", "driver 'pymysql'"),
        ("mysql+asyncmy://app:hush@db/app", r"driver 'asyncmy'\. Use mysql\+pymysql://, or mysql:// alone"),
    ],
)
def test_other_databases_and_drivers_are_refused(tmp_path: Path, url: str, said: str) -> None:
    for section in ("upstream", "cdc"):
        text = f'[upstream]\nurl = "{url}"\n' if section == "upstream" else f'{URL}[cdc]\nurl = "{url}"\n'
        if section == "cdc" and "://" not in url:
            continue  # libpq's keywords and values.
        with pytest.raises(SettingsError, match=said) as refused:
            load_settings(config(tmp_path, text))
        assert f"[{section}] url" in str(refused.value)
        assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "parameters"),
    [
        ("postgres://app:se%40cret@db:6432/my%20app", "host=db port=6432 user=app password=se@cret dbname='my app'"),
        ("postgresql://app:se@cret@db/app", "host=db user=app password=se@cret dbname=app"),
        ("postgresql://app@one:5432,two:5433/app?target_session_attrs=any", "host=one,two port=5432,5433 user=app"),
        ("postgresql:///app?host=/run/pg&options=-c%20geqo%3Doff", "host=/run/pg options='-c geqo=off' dbname=app"),
        ("host=db user=app password=a@b@c", "host=db user=app password=a@b@c"),
        ("postgresql+psycopg://app:se%40cret@db:6432/my%20app?sslmode=require", "port=6432 sslmode=require user=app"),
        ("postgresql+psycopg://app:se@cret@db/app", "host=db user=app password=se@cret dbname=app"),
        ("postgresql+psycopg://app@/app?host=one:5432&host=two:5433", "host=one,two port=5432,5433 user=app"),
        ("postgresql+psycopg:///app?host=/run/pg&options=-c+geqo%3Doff", "host=/run/pg options='-c geqo=off'"),
        ("postgresql+psycopg://app@[2001:db8::7]:6432/app", "host=2001:db8::7 port=6432"),
    ],
)
def test_urls_of_libpq_and_of_sqlalchemy(url: str, parameters: str) -> None:
    found = conninfo_to_dict(connection_url(url))
    assert conninfo_to_dict(parameters).items() <= found.items()
    assert conninfo_to_dict(connection_url(url, "set"))["password"] == "set"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app:hush@[db/app",
        "postgresql+psycopg://app:hush@db:port/app",
        "postgresql+psycopg://app:hush@one:1,two:2/app",
        "postgresql+psycopg://app:hush@db/app?sslmod=require",
    ],
)
def test_a_url_that_cannot_be_read_is_not_quoted(url: str) -> None:
    with pytest.raises(SettingsError, match="cannot be read") as refused:
        connection_url(url, "silence")
    assert not {"hush", "silence"} & set(re.findall(r"\w+", str(refused.value)))


def test_an_unknown_section_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPQUERY_UPSTREM__URL", "x")
    with pytest.raises(SettingsError, match="UPQUERY_UPSTREAM__URL"):
        load_settings(None)


def test_a_password_comes_from_a_file_and_is_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hush hush\n")
    settings = load_settings(config(tmp_path, URL + f'password_file = "{secret}"\n'))
    assert "password='hush hush'" in connection_url(settings.upstream.url, upstream_password(settings.upstream))
    open_one = load_settings(config(tmp_path, URL + 'password = "hush"\n'))
    assert "hush" not in repr(open_one)
    assert "hush" in connection_url(open_one.upstream.url, upstream_password(open_one.upstream))


@pytest.mark.parametrize(
    ("cdc", "password"),
    [
        ({}, "lookups"),
        ({"url": "postgresql://replicator@db/app"}, "lookups"),
        ({"url": "postgresql://replicator:own@db/app"}, None),
        ({"url": "postgresql://replicator:own@db/app", "password": "set"}, "set"),
        ({"url": "postgresql://replicator@db/app", "password": "set"}, "set"),
    ],
)
def test_the_login_for_the_stream_has_its_own_password_or_the_lookups(
    cdc: dict[str, str], password: str | None
) -> None:
    settings = Settings(upstream={"url": "postgresql://app@db/app", "password": "lookups"}, cdc=cdc)
    assert replication_password(settings.cdc, settings.upstream) == password
