"""Every object that the chart makes, for every entry of the matrix, is one that Kubernetes takes, and safe to run."""

import hashlib
import json
import re
import shutil
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import jsonschema
import pytest
import yaml
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

from tests.helm.charts import CHART, SERVING, Object, Rendered, render, schema_of
from tests.helm.matrix import EVERYTHING, MATRIX, SECRET
from tests.tidy.sources import ROOT

#: The three newest minor versions that there are schemas of.
VERSIONS = ("1.35.0", "1.36.0", "1.37.0")
CUSTOM = re.compile(r"(kafka\.strimzi\.io|monitoring\.coreos\.com|sparkoperator\.k8s\.io)/")
COMPONENT = "app.kubernetes.io/component"
#: https://kubernetes.io/docs/concepts/security/pod-security-standards/, "Restricted".
VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


@pytest.fixture(scope="module", params=MATRIX)
def release(request: pytest.FixtureRequest) -> Rendered:
    return render(MATRIX[request.param])


@cache
def definitions(version: str) -> Resource[Any]:
    return Resource.from_contents(
        schema_contents(f"kubernetes-json-schema/v{version}-local-strict/_definitions.json", version)
    )


@cache
def validator(version: str, kind: str, api: str) -> jsonschema.Draft202012Validator:
    """Return the validator of a kind of object; unknown fields are refused."""
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api)
    name = f"kubernetes-json-schema/v{version}-local-strict/{kind.lower()}-{group}.json"
    schema = schema_contents(name, version)
    registry = definitions(version) @ (Resource.from_contents(schema) @ Registry())
    return jsonschema.Draft202012Validator(schema, registry=registry)


@cache
def custom_validator(kind: str, api: str) -> jsonschema.Draft202012Validator:
    path = schema_of(f"{kind.lower()}-{api.rpartition('/')[2]}")
    return jsonschema.Draft202012Validator(json.loads(path.read_text()))


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_lint_has_nothing_to_say(values: Object) -> None:
    said = helm_python.lint(CHART, values, strict=True, kube_version=f"v{VERSIONS[-1]}")
    assert said["errors"] == []
    # An icon is recommended, which is for catalogs.
    assert [message for message in said["messages"] if "icon is recommended" not in message["error"]] == []


def test_objects_fit_kubernetes_schemas(release: Rendered) -> None:
    for each in release.objects:
        if CUSTOM.match(each["apiVersion"]):
            custom_validator(each["kind"], each["apiVersion"]).validate(each)
            continue
        for version in VERSIONS:
            validator(version, each["kind"], each["apiVersion"]).validate(each)


def test_a_schema_refuses_what_is_wrong() -> None:
    """Guards the test above against validators that take everything."""
    service = render(SECRET).of_kind("Service")[0]
    for broken in ({"ports": "80"}, {"prots": []}):
        with pytest.raises(jsonschema.ValidationError):
            validator(VERSIONS[-1], "Service", "v1").validate(service | {"spec": service["spec"] | broken})
    monitor = render(EVERYTHING).only("ServiceMonitor")
    with pytest.raises(jsonschema.ValidationError):
        custom_validator("ServiceMonitor", "monitoring.coreos.com/v1").validate(monitor | {"spec": {"endpoints": []}})


def test_pods_are_restricted(release: Rendered) -> None:
    for template in release.templates:
        pod = template["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] > 0
        for volume in pod["volumes"]:
            assert volume.keys() - {"name"} <= VOLUMES, volume
        for container in pod["containers"]:
            _is_restricted(container["securityContext"])
            assert not any("hostPort" in port for port in container.get("ports", []))


def _is_restricted(context: Object) -> None:
    assert context["allowPrivilegeEscalation"] is False
    assert context["privileged"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_pods_of_spark_are_restricted() -> None:
    spec = render(MATRIX["spark-application"]).only("SparkApplication")["spec"]
    for pod in (spec["driver"], spec["executor"]):
        assert pod["podSecurityContext"]["runAsNonRoot"]
        _is_restricted(pod["securityContext"])
        assert {mount["name"] for mount in pod["volumeMounts"]} <= {volume["name"] for volume in spec["volumes"]}


def test_nothing_is_written_but_volumes(release: Rendered) -> None:
    mounted = {mount["mountPath"]: mount.get("readOnly", False) for mount in release.container["volumeMounts"]}
    assert mounted.items() >= {"/tmp": False, "/run/upquery": False, "/var/lib/upquery": False}.items()
    claims = {claim["metadata"]["name"] for claim in release.engines["spec"].get("volumeClaimTemplates", [])}
    for template in release.templates:
        (container,) = template["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        used = {mount["name"] for mount in container["volumeMounts"]}
        assert used - claims == {volume["name"] for volume in template["spec"]["volumes"]}
        assert {"mountPath": "/tmp", "name": "tmp"} in container["volumeMounts"]


def test_the_account_can_do_nothing(release: Rendered) -> None:
    assert all(template["spec"]["automountServiceAccountToken"] is False for template in release.templates)
    assert all(account["automountServiceAccountToken"] is False for account in release.of_kind("ServiceAccount"))
    assert {each["kind"] for each in release.objects}.isdisjoint(
        {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}
    )


def test_services_are_not_in_the_environment(release: Rendered) -> None:
    """A Service named upquery would make UPQUERY_PORT, which is no setting: the service would not start."""
    assert all(template["spec"]["enableServiceLinks"] is False for template in release.templates)


def test_selectors_find_pods(release: Rendered) -> None:
    labels = [template["metadata"]["labels"].items() for template in release.templates]
    labels += [
        spark["spec"][role]["labels"].items()
        for spark in release.of_kind("SparkApplication")
        for role in ("driver", "executor")
    ]
    selectors = [service["spec"]["selector"] for service in release.of_kind("Service")]
    selectors += [budget["spec"]["selector"]["matchLabels"] for budget in release.of_kind("PodDisruptionBudget")]
    policies = [policy["spec"] for policy in release.of_kind("NetworkPolicy")]
    selectors += [policy["podSelector"]["matchLabels"] for policy in policies]
    assert all(any(selector.items() <= found for found in labels) for selector in selectors)


def test_objects_with_pods_find_their_own_only(release: Rendered) -> None:
    owners = [each["spec"] for kind in ("StatefulSet", "Deployment") for each in release.of_kind(kind)]
    found = [template["metadata"]["labels"].items() for template in release.templates]
    for owner in owners:
        selector = owner["selector"]["matchLabels"].items()
        assert [labels for labels in found if selector <= labels] == [owner["template"]["metadata"]["labels"].items()]
        for spread in owner["template"]["spec"]["topologySpreadConstraints"]:
            own = owner["template"]["metadata"]["labels"].items()
            assert spread["labelSelector"]["matchLabels"].items() <= own


@pytest.mark.parametrize("kind", SERVING)
def test_probes_ask_the_admin_port(release: Rendered, kind: str) -> None:
    for owner in release.of_kind(kind):
        (container,) = owner["spec"]["template"]["spec"]["containers"]
        _probes_ask_the_admin_port(container)
        assert {"name": "admin", "containerPort": 8081} in container["ports"]


def _probes_ask_the_admin_port(container: Object) -> None:
    asked = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: get["path"] for name, get in asked.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }
    assert {get["port"] for get in asked.values()} == {"admin"}
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 120


def test_a_pod_leaves_its_services_before_it_is_told_to_stop(release: Rendered) -> None:
    for owner in (each for kind in SERVING for each in release.of_kind(kind)):
        pod = owner["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        assert pod["terminationGracePeriodSeconds"] >= sleep + 12


def test_the_ingress_leads_to_the_data_plane_only() -> None:
    release = render(EVERYTHING)
    paths = [path for rule in release.only("Ingress")["spec"]["rules"] for path in rule["http"]["paths"]]
    assert {(path["backend"]["service"]["name"], path["backend"]["service"]["port"]["name"]) for path in paths} == {
        ("demo-upquery", "http")
    }
    (plain,) = (service for service in release.of_kind("Service") if service["metadata"]["name"] == "demo-upquery")
    assert [port["name"] for port in plain["spec"]["ports"]] == ["http"]


def test_memory_has_room_for_the_budget_and_the_processes() -> None:
    release = render(SECRET | {"memory": "2Gi", "workers": 3, "subscriptionMemory": "100Mi"})
    limit = 2048 * 5 // 4 + 256 + 3 * (160 + 100)
    assert release.container["resources"]["limits"]["memory"] == f"{limit}Mi"
    assert release.container["resources"]["requests"] == {"cpu": "500m", "memory": f"{limit}Mi"}
    (run,) = (volume for volume in release.pod["volumes"] if volume["name"] == "run")
    assert run["emptyDir"] == {"medium": "Memory", "sizeLimit": f"{2048 * 3 // 2 + 64}Mi"}


def test_nobody_is_let_in_where_nobody_is_named() -> None:
    assert render(MATRIX["closed"]).only("NetworkPolicy")["spec"]["ingress"] == []
    (rule,) = render(SECRET).only("NetworkPolicy")["spec"]["ingress"]
    assert rule == {"ports": [{"port": "http", "protocol": "TCP"}], "from": [{"podSelector": {}}]}


def test_egress_knows_the_ports_of_the_databases() -> None:
    def ports(values: Object) -> list[int]:
        rules = render(values).only("NetworkPolicy")["spec"]["egress"]
        return [port["port"] for rule in rules for port in rule["ports"]]

    assert ports(MATRIX["mariadb"]) == [53, 53, 3306]
    assert ports(MATRIX["closed"]) == [53, 53, 5432, 6432]
    assert ports(EVERYTHING) == [53, 53, 6432, 9093, 443]


def test_generated_tokens_are_those_of_the_file() -> None:
    secret = render(SECRET).only("Secret")["stringData"]
    known = {token["name"]: token for token in tomllib.loads(secret["tokens.toml"])["tokens"]}
    for name, rights in (("read", ["read"]), ("admin", ["admin"])):
        token = secret[f"{name}-token"]
        assert re.fullmatch(r"upq_[A-Za-z0-9]{43}", token)
        assert known[name]["sha256"] == hashlib.sha256(token.encode()).hexdigest()
        assert known[name]["rights"] == rights


def test_pods_get_the_hashes_of_generated_tokens_only() -> None:
    (volume,) = (volume for volume in render(SECRET).pod["volumes"] if volume["name"] == "tokens")
    assert volume["secret"]["items"] == [{"key": "tokens.toml", "path": "tokens.toml"}]


def test_known_tokens_are_kept(tmp_path: Path) -> None:
    """Rendering here cannot look into a cluster: what it would find there is put in its place."""
    copied = tmp_path / "upquery"
    shutil.copytree(CHART, copied)
    template = copied / "templates" / "tokens.yaml"
    found = '(dict "data" (dict "read-token" ("upq_known" | b64enc) "other" "eA=="))'
    text = template.read_text().replace('(lookup "v1" "Secret" .Release.Namespace $name)', found)
    assert found in text
    template.write_text(text)
    with helm_python.Chart.load(copied) as chart:
        rendered = chart.render(SECRET, name="demo", namespace="shop", is_upgrade=True)
    secret = yaml.safe_load(rendered["upquery/templates/tokens.yaml"])["stringData"]
    assert secret["read-token"] == "upq_known"
    assert re.fullmatch(r"upq_[A-Za-z0-9]{43}", secret["admin-token"])
    assert hashlib.sha256(b"upq_known").hexdigest() in secret["tokens.toml"]


def test_random_tokens_do_not_restart_pods() -> None:
    first, second = render(SECRET), render(SECRET)
    assert first.only("Secret") != second.only("Secret")
    assert first.only("StatefulSet") == second.only("StatefulSet")


def test_other_settings_restart_pods() -> None:
    def template(values: Object) -> Object:
        found: Object = render(values).only("StatefulSet")["spec"]["template"]
        return found

    assert template(SECRET) != template(SECRET | {"settings": {"log": {"level": "debug"}}})


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("demo", {}, "demo-upquery"),
        ("upquery", {}, "upquery"),
        ("shop", {"fullnameOverride": "views"}, "views"),
        ("a" * 53, {}, "a" * 40),
    ],
)
def test_names_leave_room_for_what_is_behind_them(name: str, values: Object, expected: str) -> None:
    release = render(SECRET | values, name=name)
    assert release.only("StatefulSet")["metadata"]["name"] == expected
    assert max(len(each["metadata"]["name"]) for each in release.objects) <= 52


def test_notes_say_what_to_know() -> None:
    assert "get secret demo-upquery-tokens" in render(SECRET).notes
    assert "get secret" not in render(EVERYTHING).notes
    assert "on one pod only" in render(MATRIX["several"]).notes


def test_notes_say_what_to_know_of_shards() -> None:
    said = render(MATRIX["sharded"]).notes
    assert "rollout status deployment/demo-upquery-gateway" in said
    assert "2 shards, one pod each: while it is replaced" in said
    assert "lost if all of these are replaced" in said
    assert "on one pod only" not in said
    assert "lost" not in render(MATRIX["sharded"] | {"persistence": {"enabled": True}}).notes
    assert "Reads go to the first 3 of them" in render(MATRIX["sharded-everything"]).notes


def test_more_shards_or_replicas_restart_no_pod() -> None:
    def templates(values: Object) -> list[Object]:
        return [each["spec"]["template"] for each in render(SECRET | values).of_kind("StatefulSet")]

    before = templates({"shards": 2})
    assert templates({"shards": 4})[:2] == before
    assert templates({"shards": 2, "replicas": 3}) == before
    assert templates({"shards": 2, "gateway": {"shards": 1}}) == before


def test_a_gateway_follows_where_pods_are_and_restarts_for_other_settings() -> None:
    def template(values: Object) -> Object:
        found: Object = render(SECRET | values).only("Deployment")["spec"]["template"]
        return found

    before = template({"shards": 2})
    assert template({"shards": 4}) == before
    assert template({"shards": 4, "gateway": {"shards": 3}}) == before
    assert template({"shards": 2, "replicas": 2}) == before
    assert template({"shards": 2, "gateway": {"settings": {"gateway": {"move_s": 1}}}}) != before


def test_a_gateways_configuration_is_mounted_as_a_folder() -> None:
    """A file that is mounted by `subPath` never changes."""
    (container,) = render(MATRIX["sharded"]).only("Deployment")["spec"]["template"]["spec"]["containers"]
    assert not any("subPath" in mount for mount in container["volumeMounts"])


def test_services_lead_to_the_gateway_where_there_is_one() -> None:
    def components(entry: str) -> dict[str, str]:
        services = render(MATRIX[entry]).of_kind("Service")
        return {
            each["metadata"]["name"].removeprefix("demo-upquery"): each["spec"]["selector"][COMPONENT]
            for each in services
        }

    assert components("secret") == {"": "engine", "-admin": "engine", "-headless": "engine"}
    assert components("sharded") == {"": "gateway", "-admin": "gateway", "-headless": "engine"}


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    documented = set(re.findall(r"`(upquery_\w+)", (ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8")))
    release = render(EVERYTHING)
    dashboard = json.loads(release.named("ConfigMap", "-dashboard")["data"]["upquery.json"])
    shown = {target["expr"] for panel in dashboard["panels"] for target in panel["targets"]}
    named = {name.removesuffix("_bucket") for expr in shown for name in re.findall(r"upquery_\w+", expr)}
    assert len(named) > 10
    assert named <= documented
    (group,) = release.only("PrometheusRule")["spec"]["groups"]
    assert group["rules"] == yaml.safe_load((CHART / "alerts.yaml").read_text(encoding="utf-8"))


def test_prometheus_finds_engines_behind_a_gateway() -> None:
    release = render(MATRIX["sharded-everything"])
    wanted = release.only("ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    found = [
        each["spec"]["selector"][COMPONENT]
        for each in release.of_kind("Service")
        if wanted <= each["metadata"]["labels"].items()
    ]
    assert sorted(found) == ["engine", "gateway"]


def test_engines_behind_a_gateway_are_nobody_elses() -> None:
    release = render(MATRIX["sharded"])
    allowed = release.named("NetworkPolicy", "")["spec"]["ingress"]
    for rule in allowed:
        (peer,) = rule["from"]
        assert peer["podSelector"]["matchLabels"][COMPONENT] == "gateway"
    assert [rule["ports"][0]["port"] for rule in allowed] == ["admin", "http"]
    (open_to,) = release.named("NetworkPolicy", "-gateway")["spec"]["ingress"]
    assert open_to == {"ports": [{"port": "http", "protocol": "TCP"}], "from": [{"podSelector": {}}]}


def test_a_gateway_reaches_engines_only() -> None:
    egress = render(MATRIX["sharded-everything"]).named("NetworkPolicy", "-gateway")["spec"]["egress"]
    assert [port["port"] for rule in egress for port in rule["ports"]] == [53, 53, 8080, 8081, 443]
    assert egress[1]["to"][0]["podSelector"]["matchLabels"][COMPONENT] == "engine"


def test_replicas_of_a_shard_keep_apart() -> None:
    for owner in render(MATRIX["sharded"]).of_kind("StatefulSet"):
        template = owner["spec"]["template"]
        rules = template["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        selector = rules[0]["podAffinityTerm"]["labelSelector"]["matchLabels"]
        assert selector == template["metadata"]["labels"]
    assert "affinity" not in render(SECRET).pod


def test_the_gateway_gets_the_token_that_the_chart_has_made() -> None:
    def token(entry: str) -> Object:
        volumes = render(MATRIX[entry]).only("Deployment")["spec"]["template"]["spec"]["volumes"]
        (secret,) = (volume["secret"] for volume in volumes if volume["name"] == "admin-token")
        return dict(secret)

    assert token("sharded")["secretName"] == "demo-upquery-tokens"
    assert token("sharded")["items"] == [{"key": "admin-token", "path": "token"}]
    assert token("sharded-everything")["secretName"] == "shop-admin"
    assert token("sharded-everything")["items"] == [{"key": "token", "path": "token"}]


def test_memory_of_a_gateway_is_its_workers() -> None:
    release = render(SECRET | {"shards": 2, "gateway": {"workers": 3}})
    (container,) = release.only("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["memory"] == f"{128 + 3 * 192}Mi"


def test_without_a_gateway_there_is_nothing_of_it() -> None:
    release = render(SECRET)
    assert not release.of_kind("Deployment")
    assert not any("upquery/shard" in json.dumps(each) or "SHARD" in json.dumps(each) for each in release.objects)


def test_names_of_many_shards_fit() -> None:
    release = render(MATRIX["sharded-everything"] | {"shards": 64, "replicas": 16}, name="a" * 53)
    assert len(release.of_kind("StatefulSet")) == 64
    assert max(len(each["metadata"]["name"]) for each in release.objects) <= 52
