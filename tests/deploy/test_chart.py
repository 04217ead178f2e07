"""The Helm chart renders valid and restricted objects, and writes only settings that Neve accepts."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from deploy.chart.values import ChartValues
from jsonschema import Draft7Validator  # type: ignore[import-untyped] # no stubs in the lock file
from referencing import Registry
from referencing.jsonschema import DRAFT7

from neve import __version__
from neve.app.serve.config import PARTS
from neve.app.settings import load_settings
from tests.deploy.helm_release import (
    CHART,
    EXAMPLES,
    NAMESPACE,
    Object,
    containers,
    find,
    pod_templates,
    reject_values,
    render_chart,
    run_helm,
    schema_of,
    values_of,
)
from tests.docs.markdown import ROOT
from tests.parts import kubernetes

OPERATOR_KINDS = {"ServiceMonitor", "PrometheusRule"}  # their schemas belong to the Prometheus operator
FILLED_IN = {"$(POD_IP)": "10.0.0.7", "$(POD_NAME)": "lake-tend-0"}


@cache
def definitions() -> Registry[Object]:
    """Return the definitions that schemas of Kubernetes refer to."""
    name = "_definitions.json"
    contents = json.loads((kubernetes.schemas() / name).read_text(encoding="utf-8"))
    empty: Registry[Object] = Registry()
    found: Registry[Object] = empty.with_resource(name, DRAFT7.create_resource(contents))
    return found


def environments(objects: tuple[Object, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the environment of each container of Neve, as the kubelet fills it in."""
    for name, pod in pod_templates(objects):
        for container in containers(pod):
            if container.get("env"):
                found = {one["name"]: one.get("value", "secret") for one in container["env"]}
                for reference, value in FILLED_IN.items():
                    found = {key: text.replace(reference, value) for key, text in found.items()}
                yield name, found


@pytest.mark.parts
@pytest.mark.parametrize("example", EXAMPLES)
def test_chart_is_clean(example: str) -> None:
    """`helm lint --strict` finds nothing in any of the examples."""
    done = run_helm("lint", "--strict", "--quiet", str(CHART), "--values", str(values_of(example)))
    assert done.returncode == 0, done.stdout


@pytest.mark.parts
@pytest.mark.parametrize("example", EXAMPLES)
def test_objects_are_valid(example: str) -> None:
    """Each object conforms to the schema of its kind, without unknown fields, and names are unique."""
    objects = render_chart(example)
    for one in objects:
        if one["kind"] not in OPERATOR_KINDS:
            errors = Draft7Validator(schema_of(one), registry=definitions()).iter_errors(one)
            assert [f"{error.json_path}: {error.message}" for error in errors] == [], one["metadata"]["name"]
    names = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(set(names)) == len(names)


@pytest.mark.parts
def test_invalid_objects_are_found() -> None:
    """The schemas reject a misspelled field, so that the test above can fail."""
    service = json.loads(json.dumps(find(render_chart("single"), "Service", "lake-api")))
    service["spec"]["sessionAfinity"] = "ClientIP"
    errors = list(Draft7Validator(schema_of(service), registry=definitions()).iter_errors(service))
    assert any("sessionAfinity" in error.message for error in errors)


@pytest.mark.parts
@pytest.mark.parametrize("example", EXAMPLES)
def test_settings_are_accepted(example: str, tmp_path: Path) -> None:
    """Neve's own loader accepts neve.yaml with the variables of each container."""
    objects = render_chart(example)
    maps = [one for one in objects if one["kind"] == "ConfigMap" and "neve.yaml" in one["data"]]
    found = list(environments(objects))
    assert maps
    assert found
    for number, one in enumerate(maps):
        file = tmp_path / f"{number}.yaml"
        file.write_text(one["data"]["neve.yaml"])
        for _name, environment in found:
            settings = load_settings(None, {**environment, "NEVE_CONFIG": str(file)})
            assert (settings.receiver.auth, settings.query.auth) == ("keys", "keys")
            assert settings.serve.drain_seconds + 10 < 45


@pytest.mark.parts
def test_spark_runs_in_pods(tmp_path: Path) -> None:
    """Drivers on Kubernetes have an address, fixed ports, the image and a pod template; an API starts no Spark."""
    objects = render_chart("production")
    file = tmp_path / "neve.yaml"
    file.write_text(find(objects, "ConfigMap", "lake")["data"]["neve.yaml"])
    by_role = dict(environments(objects))
    settings = load_settings(None, {**by_role["lake-tend"], "NEVE_CONFIG": str(file)})
    assert settings.spark.master.startswith("k8s://")
    conf = settings.spark.conf
    assert conf["spark.driver.host"] == "10.0.0.7"
    assert conf["spark.kubernetes.namespace"] == NAMESPACE
    assert conf["spark.executor.cores"] == "4"
    assert conf["spark.kubernetes.container.image"] == "registry.example.com/neve:0.1.0"
    assert conf["spark.kubernetes.executor.podTemplateFile"] == "/etc/neve/executor.yaml"
    assert load_settings(None, {**by_role["lake-api"], "NEVE_CONFIG": str(file)}).query.spark_bytes == 0
    assert "NEVE_SPARK__CONF" not in by_role["lake-receiver"]


@pytest.mark.parts
@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("is_mutual", [False, True])
def test_ports_have_tls(example: str, is_mutual: bool, tmp_path: Path) -> None:
    """The secret is mounted, settings name its files, and probes fit a kubelet without a client certificate."""
    objects = render_chart(example, "tls.existingSecret=door", f"tls.clientCa={str(is_mutual).lower()}")
    for one in objects:
        if one["kind"] not in OPERATOR_KINDS:
            assert [*Draft7Validator(schema_of(one), registry=definitions()).iter_errors(one)] == []
    file = tmp_path / "neve.yaml"
    file.write_text(find(objects, "ConfigMap", "lake")["data"]["neve.yaml"])
    settings = load_settings(str(file), {})
    assert settings.query.tls.certificate == settings.receiver.tls.certificate == "/etc/neve-tls/tls.crt"
    assert settings.receiver.tls.client_ca == ("/etc/neve-tls/ca.crt" if is_mutual else "")
    assert not settings.query.tls.client_ca
    assert not settings.serve.tls.certificate
    schemes = {4318: "tcp" if is_mutual else "HTTPS", 8480: "HTTPS", 9090: "HTTP"}
    for _name, pod in pod_templates(objects):
        volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
        for container in containers(pod):
            mounts = {one["name"] for one in container.get("volumeMounts", ())}
            assert ("tls" in mounts) == ("config" in mounts)
            assert volumes["tls"]["secret"]["secretName"] == "door" if "tls" in mounts else True
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if probe in container:
                    get = container[probe].get("httpGet")
                    port = (get or container[probe]["tcpSocket"])["port"]
                    assert (get.get("scheme", "HTTP") if get else "tcp") == schemes[port]


@pytest.mark.parts
def test_prometheus_verifies_the_certificate() -> None:
    """With the authority in the secret, on ports that have TLS."""
    monitor = next(
        one
        for one in render_chart("production", "tls.existingSecret=door", "tls.serverName=neve.example.com")
        if one["kind"] == "ServiceMonitor"
    )
    found = {one["port"]: (one.get("scheme"), one.get("tlsConfig")) for one in monitor["spec"]["endpoints"]}
    verified = {"ca": {"secret": {"name": "door", "key": "ca.crt"}}, "serverName": "neve.example.com"}
    assert found == {"health": (None, None), "otlp-http": ("https", verified), "api": ("https", verified)}
    assert "tls.clientCa needs tls.existingSecret" in reject_values("production", "tls.clientCa=true")


@pytest.mark.parts
def test_user_settings_win(tmp_path: Path) -> None:
    """`config` adds settings and overrides those of the chart, also those of Spark."""
    objects = render_chart("production", "config.serve.workers=5", 'config.spark.conf.spark\\.executor\\.cores="8"')
    file = tmp_path / "neve.yaml"
    file.write_text(find(objects, "ConfigMap", "lake")["data"]["neve.yaml"])
    settings = load_settings(None, {**dict(environments(objects))["lake-tend"], "NEVE_CONFIG": str(file)})
    assert (settings.serve.workers, settings.serve.host) == (5, "0.0.0.0")  # noqa: S104 - the setting, not a socket
    assert settings.spark.conf["spark.executor.cores"].strip('"') == "8"
    assert settings.compact.max_dollars == 10


@pytest.mark.parts
@pytest.mark.parametrize("example", EXAMPLES)
def test_pods_are_restricted(example: str) -> None:
    """Each pod conforms to the profile `restricted`, has a read-only root and no variables of services."""
    for name, pod in pod_templates(render_chart(example)):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"], name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["enableServiceLinks"] is False, name
        for container in containers(pod):
            context = container["securityContext"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
            mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
            assert {"/tmp", "/var/lib/neve"} <= mounts  # noqa: S108 - a path in the container


@pytest.mark.parts
def test_only_drivers_reach_the_api_server() -> None:
    """Receivers, APIs and executors have no token, and the role of drivers reads no secrets."""
    objects = render_chart("production")
    holders = {name for name, pod in pod_templates(objects) if pod["spec"]["automountServiceAccountToken"]}
    assert holders == {f"lake-{role}" for role in ("ingest", "tend", "tail", "sweeper", "autopilot")}
    rules = find(objects, "Role", "lake-driver")["rules"]
    assert {resource for rule in rules for resource in rule["resources"]}.isdisjoint({"secrets", "*"})
    assert not any("*" in rule["verbs"] for rule in rules)


@pytest.mark.parts
def test_roles_have_parts_and_ports() -> None:
    """Roles run every part of `neve serve` once, probes use a port of the container, and the drain time fits."""
    served: list[str] = []
    for name, pod in pod_templates(render_chart("production")):
        container = pod["spec"]["containers"][0]
        arguments = container.get("args", [])
        if arguments[:2] == ["serve", "--only"]:
            served += arguments[2].split(",")
            ports = {port["containerPort"] for port in container["ports"]}
            for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
                request = container[probe]["httpGet"]
                assert (request["path"], request["port"] in ports) == (path, True), name
            assert pod["spec"]["terminationGracePeriodSeconds"] >= 30 + 10 + 5
    assert sorted([*served, "autopilot"]) == sorted(PARTS)


@pytest.mark.parts
@pytest.mark.parametrize("example", EXAMPLES)
def test_services_lead_to_pods(example: str) -> None:
    """Each service and budget selects the pods of one workload, and its ports are doors of them."""
    objects = render_chart(example)
    pods = [(pod["metadata"]["labels"], containers(pod)[-1]) for _name, pod in pod_templates(objects)]
    for one in objects:
        if one["kind"] in {"Service", "PodDisruptionBudget"}:
            spec = one["spec"]
            selector = spec["selector"].get("matchLabels", spec["selector"])
            chosen = [container for labels, container in pods if selector.items() <= labels.items()]
            assert len(chosen) == 1, one["metadata"]["name"]
            doors = {port["name"] for port in chosen[0]["ports"]}
            assert {port["targetPort"] for port in spec.get("ports", [])} <= doors


@pytest.mark.parts
def test_replicas_follow_the_role() -> None:
    """Receivers and APIs scale by CPU; leaders have a standby; the sweeper is a StatefulSet of one."""
    objects = render_chart("production")
    scaled = {one["metadata"]["name"] for one in objects if one["kind"] == "HorizontalPodAutoscaler"}
    assert scaled == {"lake-receiver", "lake-api"}
    assert "replicas" not in find(objects, "Deployment", "lake-receiver")["spec"]
    assert find(objects, "Deployment", "lake-ingest")["spec"]["replicas"] == 2
    assert find(objects, "StatefulSet", "lake-sweeper")["spec"]["replicas"] == 1
    budgets = {one["metadata"]["name"] for one in objects if one["kind"] == "PodDisruptionBudget"}
    assert budgets == {f"lake-{role}" for role in ("receiver", "api", "ingest", "tend", "tail", "rules")}


@pytest.mark.parts
def test_autopilot_runs_at_night() -> None:
    """The autopilot is a CronJob at 02:00 UTC that never overlaps and stops after two hours."""
    spec = find(render_chart("production"), "CronJob", "lake-autopilot")["spec"]
    assert (spec["schedule"], spec["timeZone"], spec["concurrencyPolicy"]) == ("0 2 * * *", "Etc/UTC", "Forbid")
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 7200
    container = spec["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["autopilot", "run", "--once"]


@pytest.mark.parts
@pytest.mark.parametrize("example", EXAMPLES)
def test_network_is_denied_by_default(example: str) -> None:
    """One policy denies everything to all pods, executors included; others allow ports, and metrics to monitoring."""
    objects = render_chart(example)
    deny = find(objects, "NetworkPolicy", "lake-deny")["spec"]
    assert deny["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in deny
    assert "egress" not in deny
    for _name, pod in pod_templates(objects):
        assert deny["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    metrics = find(objects, "NetworkPolicy", "lake-metrics")["spec"]["ingress"][0]
    assert metrics["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}
    driver = [one for one in objects if one["metadata"]["name"] == "lake-driver" and one["kind"] == "NetworkPolicy"]
    assert bool(driver) == (example == "production")


@pytest.mark.parts
def test_secrets_are_references() -> None:
    """No object contains a secret: passwords and keys come from secrets that exist."""
    for example in EXAMPLES:
        objects = render_chart(example)
        assert not [one for one in objects if one["kind"] == "Secret"]
        for _name, pod in pod_templates(objects):
            for variable in (one for container in containers(pod) for one in container.get("env", [])):
                if re.search("PASSWORD|SECRET|TOKEN|CREDENTIAL|ACCESS_KEY", variable["name"]):
                    assert "secretKeyRef" in variable["valueFrom"]


@pytest.mark.parts
def test_monitoring_objects() -> None:
    """PrometheusRule and dashboards have the files of `deploy/monitoring`; a ServiceMonitor finds every role."""
    objects = render_chart("production")
    rules = yaml.safe_load((ROOT / "deploy/monitoring/prometheus/rules.yaml").read_text())
    found = find(objects, "PrometheusRule", "lake")["spec"]
    for group, expected in zip(found["groups"], rules["groups"], strict=True):
        for rule, wanted in zip(group["rules"], expected["rules"], strict=True):
            page = rule.get("annotations", {}).pop("runbook_url", None)
            assert rule == wanted
            assert page is None or page == f"https://wiki.example.com/{wanted['annotations']['runbook']}"
    dashboards = find(objects, "ConfigMap", "lake-dashboards")["data"]
    assert {json.loads(text)["uid"] for text in dashboards.values()} >= {"neve-overview", "neve-ingest"}
    doors = {endpoint["port"] for endpoint in find(objects, "ServiceMonitor", "lake")["spec"]["endpoints"]}
    services = [one for one in objects if one["kind"] == "Service"]
    assert {one["metadata"]["labels"]["neve/metrics"] for one in services} == doors
    assert len(services) == 7


@pytest.mark.parts
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("catalog.kind=sqlite", "catalog.kind: catalog.kind must be one of the following"),
        ("lake.warehouse=/srv/lake", "lake.warehouse: Does not match pattern '^s3://"),
        ("raw.location=raw", "raw.location: Does not match pattern '^s3://"),
        ("state.url=", "state.url: Does not match pattern '^postgresql://"),
        ("config.receiver.auth=open", "config.receiver.auth: Must not validate the schema"),
        ("spark.mode=cluster", "spark.master: String length must be greater than or equal to 1"),
        ("roles.receiver.replica=3", "Additional property replica is not allowed"),
        ("drainSeconds=0", "drainSeconds: Must be greater than or equal to 1"),
    ],
)
def test_bad_values_are_rejected(setting: str, message: str) -> None:
    """Values that can't work on several pods, and misspelled ones, are rejected by name before anything is created."""
    assert message in reject_values("production", setting)


@pytest.mark.parts
def test_pods_restart_for_new_settings_only() -> None:
    """A changed setting restarts pods; a new version of the chart alone does not."""
    before = dict(pod_templates(render_chart("production")))
    after = dict(pod_templates(render_chart("production", "config.serve.workers=7")))
    assert all(before[name] != after[name] for name in ("lake-tend", "lake-api"))
    labels = before["lake-tend"]["metadata"]["labels"]
    assert not [name for name in labels if "chart" in name or "version" in name]


def test_chart_has_the_version_of_neve() -> None:
    """The chart deploys the image of the same release, and its defaults are those of the declaration."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert yaml.safe_load((CHART / "values.yaml").read_text()) == ChartValues().model_dump(by_alias=True)
