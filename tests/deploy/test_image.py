"""The image: what its files say, and the root file system that `make image` made, run without rights or a network."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from deploy.image import build
from deploy.image.build import PACKAGES, USER, find_wheel, main

from neve.app.settings import load_settings
from tests.docs.markdown import ROOT
from tests.parts import promtool
from tests.parts.cache import home

CONTAINERFILE = ROOT / "deploy" / "Containerfile"
ENTRYPOINT = ROOT / "deploy" / "image" / "entrypoint"
# In namespaces of its own: the root is mounted read-only, only loopback exists, and everything ends with this shell.
INSIDE = """
set -e
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root" && mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o uid=10001,gid=10001 tmpfs "$root/var/lib/neve"
hostname localhost
python3 -c 'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x49))'
exec chroot --userspec=10001:10001 "$root" /usr/bin/env -i -C /var/lib/neve "$@"
"""


def python_files(name: str) -> list[str]:
    """Return the names of distributions in a lock file, with their versions."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    return re.findall(r"^([a-z0-9_.-]+==[^ ;\\]+)", text, re.MULTILINE)


def test_lock_file_is_a_part_of_the_tested_one() -> None:
    """The image has versions that tests run with, and the optional packages for services."""
    image = python_files("image.lock")
    assert set(image) <= set(python_files("dev.lock"))
    names = {one.split("==")[0] for one in image}
    assert {one.split("==")[0] for one in python_files("runtime.lock")} <= names
    assert {"boto3", "confluent-kafka", "redis", "trino"} <= names


def test_container_file_and_root_have_the_same_packages() -> None:
    """Both ways to build install the same packages of Debian, and the same user."""
    text = CONTAINERFILE.read_text(encoding="utf-8")
    stages = re.findall(r"--no-install-recommends ([a-z0-9 -]+)", text)
    assert set(" ".join(stages).split()) == set(PACKAGES)
    assert f"USER {USER}:{USER}" in text
    assert "python3-venv" not in stages[-1]
    for source in re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE):
        assert source.startswith("dist/") or (ROOT / source).exists(), source


def test_wheel_is_needed(tmp_path: Path) -> None:
    """Without a wheel the message names the command that makes one; of several the newest is used."""
    with pytest.raises(SystemExit, match="make dist"):
        find_wheel(tmp_path)
    for number, name in enumerate(("neve-0.2.0-py3-none-any.whl", "neve-0.1.0-py3-none-any.whl")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (number, number))
    assert find_wheel(tmp_path).name == "neve-0.1.0-py3-none-any.whl"


def test_builder_or_reason(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A builder that answers builds the container file; without one, the reason why nothing is built is printed."""
    built: list[tuple[str, str]] = []
    monkeypatch.setattr(build, "find_wheel", lambda folder: folder / "neve.whl")
    monkeypatch.setattr(build, "choose_builder", lambda: "podman")
    monkeypatch.setattr(build, "build_image", lambda builder, tag: built.append((builder, tag)))
    assert main(["--tag", "neve:1"]) == 0
    assert built == [("podman", "neve:1")]
    monkeypatch.setattr(build, "choose_builder", lambda: None)
    monkeypatch.setattr(build, "find_obstacle", lambda: "mmdebstrap is absent")
    assert main([]) == 1
    assert "none of docker, podman, buildah answers, and mmdebstrap is absent" in capsys.readouterr().err


def run_entrypoint(folder: Path, arguments: Sequence[str], **variables: str) -> list[str]:
    """Run the entry point with programs that print their arguments, one in a line."""
    for name in ("java", "neve", "python"):
        (folder / name).write_text(f'#!/bin/sh\necho {name}\nfor one in "$@"; do echo "$one"; done\n')
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "SPARK_HOME": "/spark", **variables}
    done = subprocess.run(["sh", ENTRYPOINT, *arguments], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_entry_point(tmp_path: Path) -> None:
    """Arguments are those of `neve`, without any it serves, and `health` asks a port."""
    assert run_entrypoint(tmp_path, ["query", "SELECT 1"]) == ["neve", "query", "SELECT 1"]
    assert run_entrypoint(tmp_path, ["neve", "--version"]) == ["neve", "--version"]
    assert run_entrypoint(tmp_path, ["health", "4318"])[-1] == "4318"
    assert run_entrypoint(tmp_path, ["health"])[-1] == "9090"


def test_executor(tmp_path: Path) -> None:
    """The argument `executor` starts Spark's backend with what the driver says in variables."""
    given = {
        "SPARK_DRIVER_URL": "spark://driver@10.0.0.1:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "1g",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.9",
        "SPARK_EXECUTOR_POD_NAME": "lake-exec-3",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
        "SPARK_JAVA_OPT_1": "-Dname=two words",
    }
    said = run_entrypoint(tmp_path, ["executor"], **given)
    assert said[:7] == ["java", "-cp", ":/spark/jars/*", "-Xms1g", "-Xmx1g", *list(given.values())[-2:]]
    assert said[7].endswith(".KubernetesExecutorBackend")
    options = dict(zip(said[8::2], said[9::2], strict=True))
    assert options["--driver-url"] == given["SPARK_DRIVER_URL"]
    assert (options["--podName"], options["--hostname"]) == ("lake-exec-3", "10.0.0.9")


def test_compose_settings_are_accepted(tmp_path: Path) -> None:
    """Neve accepts the variables of each service, and services run with a read-only root and without rights."""
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    (tmp_path / "neve.yaml").write_text("{}")
    own = {name: one for name, one in compose["services"].items() if "NEVE_IMAGE" in one["image"]}
    assert set(own) == {"init", "keys", "neve", "demo"}
    for name, one in own.items():
        variables = {key: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", str(text)) for key, text in one["environment"].items()}
        settings = load_settings(str(tmp_path / "neve.yaml"), variables)
        assert settings.query.auth == ("open" if name == "demo" else "keys")
        assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
    for one in compose["services"].values():
        assert set(one.get("depends_on", [])) <= set(compose["services"])


@pytest.mark.parts
def test_prometheus_of_compose() -> None:
    """Promtool accepts the configuration of Prometheus with its rules."""
    program = promtool.program()
    if not program.exists():
        pytest.skip(f"promtool {promtool.VERSION} is absent: make parts")
    file = ROOT / "deploy" / "monitoring" / "prometheus" / "prometheus.yaml"
    subprocess.run([program, "check", "config", "--syntax-only", file], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def root() -> Path:
    """Return the root file system that `make image` made, or skip."""
    found = home() / "image" / "rootfs"
    if not found.exists():
        pytest.skip(f"{found} is absent: make image IMAGE=--root")
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("namespaces of Linux and root are needed")
    return found


def run_inside(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the root file system as the image would, without a network."""
    namespaces = ["unshare", "--mount", "--net", "--uts", "--pid", "--ipc", "--fork", "--kill-child"]
    inside = ["sh", "-c", INSIDE, "sh", str(root), *command]
    return subprocess.run([*namespaces, *inside], capture_output=True, text=True, check=False, timeout=1200)


def run_image(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the entry point of the image."""
    return run_inside(root, "/usr/bin/tini", "-s", "--", "/opt/neve/entrypoint", *arguments)


@pytest.mark.long
def test_image_has_no_rights(root: Path) -> None:
    """Commands run as a user without rights on a read-only root, and only two folders are writable."""
    script = "id -u; touch /opt/neve/x 2>&1; touch /etc/x 2>&1; touch /tmp/x /var/lib/neve/x && echo written"
    said = run_inside(root, "/bin/sh", "-c", script).stdout.splitlines()
    assert (said[0], said[-1]) == (str(USER), "written")
    assert [line for line in said if "Read-only file system" in line] == said[1:-1]
    assert len(said) == 4


@pytest.mark.long
def test_image_runs_neve(root: Path) -> None:
    """`neve --version`, `neve init`, ingestion on Spark and a query work without a network."""
    assert run_image(root, "--version").stdout.startswith("neve")
    assert run_image(root, "health", "1").returncode != 0
    script = """set -e
entry=/opt/neve/entrypoint
$entry init
echo '{"timestamp": "2026-01-02T03:04:05Z", "message": "from the image", "service.name": "shop"}' > /tmp/logs.jsonl
$entry ingest files --signal logs /tmp/logs.jsonl
$entry query --json "SELECT message, service_name FROM logs"
"""
    done = run_inside(root, "/usr/bin/tini", "-s", "--", "/bin/sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert "from the image" in done.stdout


@pytest.mark.long
def test_image_runs_executors(root: Path) -> None:
    """The entry point starts Spark's backend for executors, which fails only for lack of a driver."""
    given = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:9",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_EXECUTOR_POD_NAME": "lake-exec-1",
        "SPARK_APPLICATION_ID": "spark-1",
    }
    variables = [f"{name}={value}" for name, value in given.items()]
    done = run_inside(root, *variables, "/usr/bin/tini", "-s", "--", "/opt/neve/entrypoint", "executor")
    assert done.returncode != 0
    assert "Connection refused: /127.0.0.1:9" in done.stderr + done.stdout
