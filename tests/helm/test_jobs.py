"""Scheduled jobs: audits, models of the workload."""

import pytest
import typer.core
import typer.main

from service.command.cli import app
from tests.helm.charts import Object, render
from tests.helm.matrix import MATRIX, SECRET
from tests.helm.pods import Cluster


def container(template: Object) -> Object:
    (found,) = template["spec"]["containers"]
    return dict(found)


def audited(values: Object) -> list[tuple[str, str]]:
    """Which pods are asked, and at which address."""
    release = render(values)
    cluster = Cluster(release, {})
    found = []
    for cron in release.of_kind("CronJob"):
        job = cron["spec"]["jobTemplate"]["spec"]
        for index in range(job["completions"]):
            template = job["template"] | {"metadata": {"annotations": {INDEX: str(index)}}}
            found.append((cron["metadata"]["name"], cluster.environment(template, "any")["UPQUERY_ADMIN_URL"]))
    return found


INDEX = "batch.kubernetes.io/job-completion-index"
HEADLESS = "demo-upquery-headless:8081"


def test_every_pod_is_audited() -> None:
    assert audited(SECRET | {"replicas": 2, "audit": {"enabled": True}}) == [
        ("demo-upquery-audit", f"http://demo-upquery-{pod}.{HEADLESS}") for pod in (0, 1)
    ]
    assert audited(SECRET | {"shards": 2, "replicas": 2, "audit": {"enabled": True}}) == [
        (f"demo-upquery-{shard}-audit", f"http://demo-upquery-{shard}-{pod}.{HEADLESS}")
        for shard in (0, 1)
        for pod in (0, 1)
    ]
    # Those that there always are.
    assert len(audited(SECRET | {"autoscaling": {"enabled": True, "minReplicas": 3}, "audit": {"enabled": True}})) == 3


@pytest.mark.parametrize(
    ("entry", "pods"),
    [
        ("warm", ["demo-upquery-0", "demo-upquery-1"]),
        ("warm-shards", [f"demo-upquery-{shard}-{pod}" for shard in (0, 1) for pod in (0, 1)]),
        ("secret", []),
        ("mariadb", []),
        ("sharded-everything", []),
    ],
)
def test_slots_are_dropped_when_the_release_is_gone(entry: str, pods: list[str]) -> None:
    """Exactly where pods leave theirs. The job needs nothing of the release, which is gone."""
    release = render(MATRIX[entry])
    assert ("persistent = true" in release.toml) == bool(pods)
    hooks = [each for each in release.objects if "helm.sh/hook" in each["metadata"].get("annotations", {})]
    assert [each["kind"] for each in hooks] == (["ConfigMap", "Job"] if pods else [])
    for job in hooks[1:]:
        pod = job["spec"]["template"]["spec"]
        assert pod["serviceAccountName"] == "default"
        arguments = container(job["spec"]["template"])["args"]
        assert [arguments[at + 1] for at, word in enumerate(arguments) if word == "--host"] == pods
        sources = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
        assert sources == [hooks[0]["metadata"]["name"]]
        slots = {each["metadata"]["name"] for each in release.of_kind("StatefulSet")}
        assert {pod.rpartition("-")[0] for pod in pods} == slots


@pytest.mark.parametrize("entry", ["audited", "job", "spark-application", "sharded-everything", "warm"])
def test_arguments_are_the_commands(entry: str) -> None:
    """Each is parsed: an option that is not there would be a usage error."""
    release = render(MATRIX[entry])
    given = [container(template)["args"] for template in release.job_templates]
    given += [spark["spec"]["arguments"] for spark in release.of_kind("SparkApplication")]
    assert given
    for arguments in given:
        assert all(isinstance(word, str) for word in arguments)
        _parse(arguments)


def _parse(arguments: list[str]) -> None:
    command, rest = typer.main.get_command(app), list(arguments)
    while isinstance(command, typer.core.TyperGroup):
        name = rest.pop(0)
        found = command.get_command(typer.Context(command), name)
        assert found is not None, name
        command = found
    command.make_context("upquery", rest)


def test_an_audit_is_given_the_token_and_no_more() -> None:
    release = render(MATRIX["audited"])
    cluster = Cluster(release, {})
    (template,) = release.job_templates
    template["metadata"]["annotations"] = {INDEX: "0"}
    given = cluster.environment(template, "any")
    assert given["UPQUERY_TOKEN"] == release.only("Secret")["stringData"]["admin-token"]
    assert given.keys() == {"HOME", "POD_INDEX", "UPQUERY_ADMIN_URL", "UPQUERY_TOKEN"}


def test_a_model_is_made_of_all_pods_logs() -> None:
    (template,) = render(MATRIX["job"]).job_templates
    mounts = {mount["name"]: mount for mount in container(template)["volumeMounts"]}
    assert mounts["access-log"] == {"name": "access-log", "mountPath": "/var/log/upquery", "readOnly": True}
    assert "subPathExpr" in next(
        mount for mount in render(MATRIX["job"]).container["volumeMounts"] if mount["name"] == "access-log"
    )


def test_executors_of_spark_read_the_log_where_the_driver_does() -> None:
    spec = render(MATRIX["spark-application"]).only("SparkApplication")["spec"]
    driver, executor = (
        {mount["name"]: mount["mountPath"] for mount in spec[role]["volumeMounts"]} for role in ("driver", "executor")
    )
    assert driver["access-log"] == executor["access-log"] == "/var/log/upquery"
    assert spec["mainApplicationFile"] == f"local://{driver['program']}/workload.py"


def test_the_program_of_spark_is_one() -> None:
    release = render(MATRIX["spark-application"])
    program = release.named("ConfigMap", "-workload")["data"]["workload.py"]
    compile(program, "workload.py", "exec")
    assert "from service.command.cli import app" in program


def test_what_runs_now_and_then_gets_in_where_nobody_else_does() -> None:
    release = render(MATRIX["audited"])
    rules = release.named("NetworkPolicy", "")["spec"]["ingress"]
    (admin,) = (rule for rule in rules if rule["ports"][0]["port"] == "admin")
    assert [peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for peer in admin["from"]] == ["job"]
    assert release.named("NetworkPolicy", "-jobs")["spec"]["ingress"] == []
