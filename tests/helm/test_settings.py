"""The rendered upquery.toml, read by the service's own loader, means what the values say."""

import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from service.settings.gateway import GatewaySettings, load_gateway_settings
from service.settings.stack import Settings, load_settings
from tests.helm.charts import Object, Rendered, render
from tests.helm.matrix import EVERYTHING, MATRIX, SECRET, SHARDED
from tests.helm.pods import Cluster

FROM_SECRET = "postgresql://app:hushhush@db.shop/app"
#: Whichever is asked for, and whichever key of it.
ANY_SECRET: defaultdict[str, dict[str, str]] = defaultdict(lambda: defaultdict(lambda: FROM_SECRET))


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a pod's settings, with the Secrets of its environment."""

    def loaded(values: Object) -> Settings:
        release = render(values)
        _mount_environment(monkeypatch, release, release.engines)
        file = tmp_path / "upquery.toml"
        file.write_text(release.toml, encoding="utf-8")
        return load_settings(file)

    return loaded


@pytest.fixture
def load_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a gateway's settings."""

    def loaded(values: Object) -> GatewaySettings:
        release = render(values)
        _mount_environment(monkeypatch, release, release.only("Deployment"))
        file = tmp_path / "gateway.toml"
        file.write_text(release.named("ConfigMap", "-gateway")["data"]["gateway.toml"], encoding="utf-8")
        return load_gateway_settings(file)

    return loaded


def _mount_environment(monkeypatch: pytest.MonkeyPatch, release: Rendered, owner: Object) -> None:
    given = Cluster(release, ANY_SECRET).environment(owner["spec"]["template"], "demo-upquery-0")
    for name in [name for name in os.environ if name.startswith("UPQUERY_")]:
        monkeypatch.delenv(name)
    for name, value in given.items():
        if name.startswith("UPQUERY_"):
            monkeypatch.setenv(name, value)


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_every_rendered_file_is_one_the_service_takes(load: Any, values: Object) -> None:
    settings = load(values)
    assert settings.auth is not None, "a pod is reachable: nobody may get in without a token"
    assert str(settings.engine.directory) == "/run/upquery"
    assert str(settings.state.directory) == "/var/lib/upquery"
    # A checkpoint that goes with its pod is not written.
    assert (settings.state.checkpoint_s > 0) == values.get("persistence", {}).get("enabled", False)
    assert settings.state.warm_timeout_s == 30


def test_a_secret_is_enough(load: Any) -> None:
    settings = load(SECRET)
    assert settings.upstream.url == FROM_SECRET
    assert settings.engine.memory == 1 << 30
    assert (settings.http.host, settings.http.port, settings.http.admin_port) == ("0.0.0.0", 8080, 8081)
    assert settings.http.workers == 2
    assert str(settings.auth.tokens_file) == "/etc/upquery/tokens/tokens.toml"
    assert settings.log.format == "json"


def test_everything_is_what_the_values_say(load: Any) -> None:
    settings = load(EVERYTHING)
    assert settings.upstream.url == EVERYTHING["upstream"]["url"]
    assert str(settings.upstream.password_file) == "/etc/upquery/secrets/upstream/password"
    assert settings.cdc.source == "kafka"
    kafka = settings.cdc.kafka
    assert kafka.bootstrap_servers == "kafka-1:9093,kafka-2:9093"
    assert (kafka.topic_prefix, kafka.security_protocol, kafka.sasl_username) == ("shop", "SASL_SSL", "upquery")
    assert str(kafka.sasl_password_file) == "/etc/upquery/secrets/kafka/password"
    assert [str(file) for file in (kafka.ssl_cafile, kafka.ssl_certfile, kafka.ssl_keyfile)] == [
        f"/etc/upquery/tls/kafka/{name}" for name in ("ca.crt", "tls.crt", "tls.key")
    ]
    assert settings.http.workers == 4
    assert settings.engine.memory == 6 << 30
    assert settings.subscriptions.memory == 128 << 20
    assert settings.subscriptions.origins == ("https://a.example", "https://b.example")
    assert settings.auth.jwt.issuer == "https://id.example/"
    assert settings.traces.sample_rate == 0.25
    assert settings.access_log.sample_rate == 0.001
    assert str(settings.access_log.path) == "/var/log/upquery"
    # Whole tables of `settings` are merged with the defaults.
    assert (settings.log.level, settings.log.format) == ("warning", "json")
    views = {view.name: view for view in settings.views}
    assert views["story"].sql.strip() == EVERYTHING["views"]["story"]["sql"]
    assert views["story"].cache_control == "public, max-age=5"
    assert views["front"].limit_rows == 2_000_000


def test_a_login_of_its_own_for_the_change_stream(load: Any) -> None:
    settings = load(MATRIX["mariadb"])
    assert settings.cdc.url == "mariadb://binlog@maria-primary.shop/app"
    assert str(settings.cdc.password_file) == "/etc/upquery/secrets/cdc/password"
    settings = load(SECRET | {"cdc": {"secret": {"name": "replication"}}})
    assert (settings.cdc.url, settings.cdc.password_file) == (FROM_SECRET, None)


@pytest.mark.parametrize("entry", MATRIX)
def test_files_that_settings_name_are_mounted(load: Any, entry: str) -> None:
    release = render(MATRIX[entry])
    settings = load(MATRIX[entry])
    mounts = {mount["mountPath"] for mount in release.container["volumeMounts"]}
    kafka = settings.cdc.kafka
    files = [settings.upstream.password_file, settings.cdc.password_file, settings.auth.tokens_file]
    if settings.auth.jwt is not None:
        files.append(settings.auth.jwt.jwks_file)
    if kafka is not None:
        files += [kafka.sasl_password_file, kafka.ssl_cafile, kafka.ssl_certfile, kafka.ssl_keyfile]
    assert {str(file.parent) for file in files if file is not None} <= mounts


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'it''s' AS a, \"b\" FROM t WHERE c <> :d && e",
        "SELECT\n\t'it''s'  \n  FROM t -- <&>\nWHERE x = '{{ .Values.memory }}'",
        "  SELECT 1\n    FROM t\n\n\n",
        "SELECT '''quoted''\nand ''''' FROM t",
        r"SELECT E'\\n \u00e9' FROM t" + "\nWHERE y ~ '\\d+$'",
        "SELECT 'Größe, 大小, 🐘' FROM t\n-- 🐘",
        "SELECT 'a\u2028b\u0085c\x7f\ufeff' FROM t\n-- \u2028\u0085\x7f",
        "SELECT 1\r\nFROM t\r\n",
        "# no comment\n[table]\nkey = 'value'",
    ],
)
def test_sql_arrives_as_it_was_written(load: Any, sql: str) -> None:
    (view,) = load(SECRET | {"views": {"v": {"sql": sql}}}).views
    assert view.sql.rstrip("\n") == sql.rstrip("\n")


@pytest.mark.parametrize("number", [1, 1000, 100_000, 9_007_199_254_740_992])
def test_numbers_stay_whole(load: Any, number: int) -> None:
    (view,) = load(SECRET | {"views": {"v": {"sql": "SELECT 1", "limit_bytes": number}}}).views
    assert view.limit_bytes == number


@pytest.mark.parametrize("number", [0.5, 1e-7, 0.1, 12345.678, 3.0])
def test_fractions_stay_exact(load: Any, number: float) -> None:
    assert load(SECRET | {"settings": {"log": {"slow_ms": number}}}).log.slow_ms == number


def test_no_secret_is_in_what_can_be_read() -> None:
    """ConfigMap, arguments and environment only say where secrets are."""
    release = render(EVERYTHING)
    assert not any("password" in each.get("value", "").lower() for each in release.container["env"])
    assert release.of_kind("Secret") == []


@pytest.mark.parametrize("entry", [name for name, values in MATRIX.items() if values.get("shards", 1) > 1])
def test_each_shard_knows_which_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    release = render(MATRIX[entry])
    file = tmp_path / "upquery.toml"
    file.write_text(release.toml, encoding="utf-8")
    found = []
    for owner in release.of_kind("StatefulSet"):
        _mount_environment(monkeypatch, release, owner)
        found.append(load_settings(file).shard.number)
    assert found == list(range(MATRIX[entry]["shards"]))


def test_shards_that_stay_do_not_count_those_that_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of four shards are read; these take over the views of the fourth, which is still one of four."""
    release = render(SHARDED)
    known = []
    for owner in release.of_kind("StatefulSet"):
        _mount_environment(monkeypatch, release, owner)
        known.append(os.environ["UPQUERY_SHARD__OF"])
    assert known == ["3", "3", "3", "4"]


@pytest.mark.parametrize("entry", [name for name in MATRIX if name.startswith(("sharded", "gateway"))])
def test_every_gateways_file_is_one_it_takes(load_gateway: Any, entry: str) -> None:
    settings = load_gateway(MATRIX[entry])
    assert settings.auth is not None, "a gateway is reachable: nobody may get in without a token"
    assert settings.http.port == load_gateway(SECRET | {"shards": 2}).http.port
    release = render(MATRIX[entry])
    (container,) = release.only("Deployment")["spec"]["template"]["spec"]["containers"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    files = [
        settings.auth.tokens_file,
        settings.gateway.admin_token_file,
        settings.auth.jwt and settings.auth.jwt.jwks_file,
    ]
    assert {str(file.parent) for file in files if file is not None} <= mounts


@pytest.mark.parametrize("entry", [name for name in MATRIX if name.startswith(("sharded", "gateway"))])
def test_a_gateway_asks_the_pods_that_there_are(load_gateway: Any, entry: str) -> None:
    gateway = load_gateway(MATRIX[entry]).gateway
    release = render(MATRIX[entry])
    ports = {port["name"]: port["containerPort"] for port in release.container["ports"]}
    hosts = []
    for owner in release.of_kind("StatefulSet")[: gateway.shards]:
        name, spec = owner["metadata"]["name"], owner["spec"]
        hosts.append([f"http://{name}-{replica}.{spec['serviceName']}" for replica in range(spec["replicas"])])
    assert gateway.pods == tuple(tuple(f"{host}:{ports['http']}" for host in replicas) for replicas in hosts)
    assert gateway.admin_pods == tuple(tuple(f"{host}:{ports['admin']}" for host in replicas) for replicas in hosts)


def test_a_gateway_is_what_the_values_say(load_gateway: Any) -> None:
    settings = load_gateway(SHARDED)
    assert (settings.gateway.shards, settings.gateway.replicas, settings.gateway.move_s) == (3, 2, 300)
    assert (settings.http.workers, settings.http.max_connections) == (2, 500)
    # What pods take, it takes.
    assert (settings.log.level, settings.log.format) == ("warning", "json")
    assert load_gateway(SECRET | {"shards": 2, "settings": {"http": {"max_keys": 7}}}).http.max_keys == 7
