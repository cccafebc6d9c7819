"""Invalid values are rejected before anything is changed, with the reason."""

import helm_python
import pytest

from tests.helm.charts import Object, render
from tests.helm.matrix import CONNECTOR, KAFKA, MODELS, READS, SECRET

JWT = {"issuer": "i", "audience": "a", "jwks_url": "https://id.example/keys"}
URL = {"upstream": {"url": "postgresql://app@db/app"}}

#: Values that the schema rejects: where, and why.
BY_SCHEMA: list[tuple[Object, str, str]] = [
    ({"replica": 2}, "at ''", "'replica' not allowed"),
    ({"replicas": "two"}, "/replicas", "got string, want integer"),
    ({"workers": 0}, "/workers", "minimum"),
    ({"memory": "1GB"}, "/memory", "'1GB' does not match pattern"),
    ({"memory": 1073741824}, "/memory", "got number, want string"),
    ({"upstream": {"url": "oracle://db"}}, "/upstream/url", "does not match pattern"),
    ({"cdc": {"url": "postgresql+psycopg2://db/app"}}, "/cdc/url", "does not match pattern"),
    ({"upstream": {"password": "hunter2"}}, "/upstream", "'password' not allowed"),
    ({"cdc": {"source": "debezium"}}, "/cdc/source", "must be one of 'direct', 'kafka'"),
    ({"http": {"port": 80}}, "/http/port", "minimum: got 80, want 1,024"),
    ({"http": {"host": "127.0.0.1"}}, "/http/host", "must be one of"),
    ({"settings": {"http": {"port": 9000}}}, "/settings/http", "'port' not allowed"),
    ({"settings": {"http": {"read_timeout": 5}}}, "/settings/http", "'read_timeout' not allowed"),
    ({"settings": {"upstream": {"password": "x"}}}, "/settings/upstream", "'password' not allowed"),
    ({"settings": {"engine": {"eviction": "lru"}}}, "/settings/engine", "'eviction' not allowed"),
    ({"settings": {"log": {"slow_ms": -1}}}, "/settings/log/slow_ms", "minimum"),
    ({"settings": {"auth": {}}}, "/settings", "'auth' not allowed"),
    ({"views": {"two words": {"sql": "SELECT 1"}}}, "at ''", "'two words' does not match pattern"),
    ({"views": {"v": {"tier": "ttl"}}}, "/views/v", "missing property 'sql'"),
    ({"views": {"v": {"sql": "SELECT 1", "on_miss": "hope"}}}, "/views/v/on_miss", "must be one of 'wait', 'forward'"),
    ({"auth": {"jwt": {"issuer": "i"}}}, "/auth/jwt", "missing property 'audience'"),
    ({"auth": {"enabled": False}}, "/auth", "'enabled' not allowed"),
    ({"image": {"digest": "sha256:12"}}, "/image/digest", "does not match pattern"),
    ({"kafka": {"connector": {"password": "hunter2"}}}, "/kafka/connector/password", "does not match pattern"),
    ({"shards": 65}, "/shards", "maximum"),
    ({"settings": {"shard": {"of": 2}}}, "/settings", "'shard' not allowed"),
    ({"gateway": {"settings": {"gateway": {"replicas": 2}}}}, "/gateway/settings/gateway", "'replicas' not allowed"),
    ({"gateway": {"settings": {"gateway": {"move": 2}}}}, "/gateway/settings/gateway", "'move' not allowed"),
    ({"gateway": {"settings": {"auth": {}}}}, "/gateway/settings", "'auth' not allowed"),
    ({"audit": {"schedule": "at night"}}, "/audit/schedule", "does not match pattern"),
    ({"workload": {"kind": "Pod"}}, "/workload/kind", "must be one of 'CronJob', 'Job', 'SparkApplication'"),
    ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "/podDisruptionBudget/maxUnavailable", "does not match"),
]

SECRET_PARAMETERS = (
    "postgresql://app@db/app?password=hunter2",
    "postgresql://app@db/app?sslmode=verify-full&password=hunter2",
    "postgresql://app@db/app?sslkey=/k&sslpassword=hunter2",
    "postgresql://app@db/app?pass%77ord=hunter2",
    "postgresql://app@db-0:5432,db-1:5432/app?password=hunter2",
)

#: Combinations of values that are rejected.
TOGETHER: list[tuple[Object, str]] = [
    ({}, "No upstream database is configured. Set upstream.secret.name"),
    ({"upstream": {"url": "postgresql://app:hunter2@db/app"}}, "would be readable in the ConfigMap"),
    (SECRET | {"cdc": {"url": "postgresql://app:hunter2@db/app"}}, "would be readable in the ConfigMap"),
    *[({"upstream": {"url": url}}, "A URL with a password among its parameters") for url in SECRET_PARAMETERS],
    (SECRET | {"cdc": {"url": SECRET_PARAMETERS[0]}}, "A URL with a password among its parameters"),
    (SECRET | {"cdc": {"source": "kafka"}}, "set kafka.bootstrapServers"),
    (SECRET | {"cdc": {"source": "kafka"}, "kafka": {"bootstrapServers": "k:9092"}}, "set kafka.topicPrefix"),
    (KAFKA | {"kafka": {**KAFKA["kafka"], "connector": CONNECTOR | {"cluster": ""}}}, "set kafka.connector.cluster"),
    (KAFKA | {"kafka": {**KAFKA["kafka"], "connector": CONNECTOR | {"tables": []}}}, "set kafka.connector.tables"),
    (URL | {"kafka": {"topicPrefix": "p", "connector": CONNECTOR | {"databaseName": ""}}}, "connector.databaseName"),
    (URL | {"kafka": {"topicPrefix": "p", "connector": CONNECTOR | {"database": "mysql"}}}, "kafka.bootstrapServers"),
    (SECRET | {"settings": {"access_log": {"sample_rate": 0.5}}}, "accessLog.enabled is false"),
    (SECRET | {"accessLog": {"enabled": True, "volume": {"hostPath": {"path": "/"}}}}, "restricted pods may not mount"),
    (SECRET | {"serviceMonitor": {"enabled": True}}, "Set auth.openMetrics, or serviceMonitor.tokenSecret.name"),
    (SECRET | {"drain": {"sleepSeconds": 20, "gracePeriodSeconds": 30}}, "gracePeriodSeconds is too short"),
    (SECRET | {"drain": {"sleepSeconds": 5, "gracePeriodSeconds": 26}}, "may take 22 seconds to stop"),
    (SECRET | {"admin": {"port": 8080}}, "http.port and admin.port must differ"),
    (SECRET | {"autoscaling": {"enabled": True, "minReplicas": 9}}, "must be at most autoscaling.maxReplicas"),
    (SECRET | {"ingress": {"enabled": True}}, "set ingress.hosts"),
    (SECRET | {"shards": 2, "autoscaling": {"enabled": True}}, "a fixed number of replicas of each shard"),
    (SECRET | {"shards": 2, "replicas": 0}, "it must be from 1 to 16"),
    (SECRET | {"gateway": {"enabled": True}, "replicas": 17}, "replicas is 17"),
    (SECRET | {"shards": 2, "gateway": {"shards": 3}}, "gateway.shards is 3: it must be at most shards, 2"),
    (SECRET | {"shards": 2, "auth": {"existingSecret": "mine"}}, "Set auth.adminToken.secret"),
    (SECRET | {"shards": 2, "auth": {"jwt": JWT}}, "Set auth.adminToken.secret"),
    (SECRET | {"gateway": {"autoscaling": {"enabled": True}}}, "there is no gateway: set shards"),
    (SECRET | {"shards": 2, "gateway": {"autoscaling": {"enabled": True, "minReplicas": 9}}}, "at most gateway."),
    (SECRET | {"shards": 2, "gateway": {"resources": {"limits": {"memory": "64Mi"}}}}, "the gateway needs 320Mi"),
    (SECRET | {"audit": {"enabled": True}, "auth": {"existingSecret": "mine"}}, "audit and workload need a token"),
    (SECRET | {"audit": {"enabled": True}, "replicas": 0}, "there is no pod to audit"),
    (SECRET | {"workload": {"enabled": True}}, "set accessLog.enabled, and accessLog.volume"),
    (SECRET | {"workload": {"enabled": True}, "accessLog": {"enabled": True}}, "and accessLog.volume"),
    (SECRET | {"workload": {"enabled": True}, "accessLog": READS}, "set workload.volume"),
    (SECRET | {"workload": {"enabled": True, "volume": {"hostPath": {"path": "/"}}}, "accessLog": READS}, "hostPath"),
    (
        SECRET | {"accessLog": READS, "workload": {"enabled": True, "kind": "SparkApplication", "volume": MODELS}},
        "Spark's entry point and Upquery",
    ),
    (SECRET | {"networkPolicy": {"egress": {"enabled": True}}}, "set networkPolicy.egress.upstreamPorts"),
    (SECRET | {"extraEnv": [{"name": "UPQUERY_HTTP__PORT", "value": "1"}]}, "belongs in settings"),
    (SECRET | {"extraEnv": [{"name": "upquery_gateway__shards", "value": "1"}]}, "belongs in settings"),
    (SECRET | {"resources": {"limits": {"memory": "1Gi"}}}, "needs at least 1280Mi"),
]


@pytest.mark.parametrize(("values", "where", "why"), BY_SCHEMA, ids=[str(case[0]) for case in BY_SCHEMA])
def test_the_schema_says_where_and_why(values: Object, where: str, why: str) -> None:
    with pytest.raises(helm_python.HelmValuesError) as refused:
        render(SECRET | values)
    assert where in str(refused.value)
    assert why in str(refused.value)


def test_parameters_of_a_url_that_are_no_secrets_are_taken() -> None:
    url = "postgresql://app@db/app?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.crt&sslkey=/k&passfile=/p"
    assert url in render({"upstream": {"url": url}}).toml


@pytest.mark.parametrize(("values", "why"), TOGETHER, ids=[case[1] for case in TOGETHER])
def test_values_must_fit_together(values: Object, why: str) -> None:
    with pytest.raises(helm_python.HelmRenderError) as refused:
        render(values)
    assert why in str(refused.value)
    assert "hunter2" not in str(refused.value)
