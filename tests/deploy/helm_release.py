"""Releases of the chart as helm renders them, without a cluster."""

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.markdown import ROOT
from tests.parts import kubernetes

HELM = ROOT / "deploy" / "helm"
CHART = HELM / "neve"
EXAMPLES = ("production", "single", "existing-services")
NAMESPACE = "telemetry"
Object = dict[str, Any]


def run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm, or skip the test where it is absent."""
    program = kubernetes.helm()
    if not program.exists():
        pytest.skip(f"helm {kubernetes.HELM_VERSION} is absent: make parts-cheap")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)


def values_of(example: str) -> Path:
    """Return a file with example values."""
    return HELM / "values" / f"{example}.yaml"


@cache
def render_chart(example: str, *settings: str) -> tuple[Object, ...]:
    """Return the objects of a release with the values of an example and further ones, as key=value."""
    options = [option for setting in settings for option in ("--set", setting)]
    place = ["lake", str(CHART), "--namespace", NAMESPACE]
    done = run_helm("template", *place, "--values", str(values_of(example)), *options)
    assert done.returncode == 0, done.stderr
    return tuple(one for one in yaml.safe_load_all(done.stdout) if one)


def reject_values(example: str, *settings: str) -> str:
    """Return helm's message about values that the schema rejects."""
    options = [option for setting in settings for option in ("--set", setting)]
    done = run_helm("template", "lake", str(CHART), "--values", str(values_of(example)), *options)
    assert done.returncode != 0
    return done.stderr


def find(objects: tuple[Object, ...], kind: str, name: str) -> Object:
    """Return one object."""
    return next(one for one in objects if one["kind"] == kind and one["metadata"]["name"] == name)


def pod_templates(objects: tuple[Object, ...]) -> Iterator[tuple[str, Object]]:
    """Yield the name of each workload and its pod, also that of Spark's executors."""
    for one in objects:
        if one["kind"] in {"Deployment", "StatefulSet", "Job"}:
            yield one["metadata"]["name"], one["spec"]["template"]
        elif one["kind"] == "CronJob":
            yield one["metadata"]["name"], one["spec"]["jobTemplate"]["spec"]["template"]
        elif one["kind"] == "ConfigMap" and "executor.yaml" in one["data"]:
            yield f"executor of {one['metadata']['name']}", yaml.safe_load(one["data"]["executor.yaml"])


def containers(pod: Object) -> list[Object]:
    """Return the containers of a pod, those that run first included."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def schema_of(one: Object) -> Object:
    """Return the schema of an object of Kubernetes."""
    folder = kubernetes.schemas()
    if not folder.exists():
        pytest.skip(f"schemas of Kubernetes {kubernetes.KUBERNETES_VERSION} are absent: make parts-cheap")
    group, _, version = one["apiVersion"].rpartition("/")
    short = group.split(".")[0]
    name = "-".join(part for part in (one["kind"].lower(), short, version) if part)
    found: Object = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found
