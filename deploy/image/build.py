"""Build the image with the builder that is here: `python -m deploy.image.build` after `make dist`.

docker, podman and buildah build `deploy/Containerfile`. Without any of them, or with `--root`, a root file system is
made from Debian's packages (mmdebstrap, as root). It has the same content, and a builder can import it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
BUILDERS = ("docker", "podman", "buildah")
SUITE = "bookworm"
PACKAGES = ("ca-certificates", "openjdk-17-jre-headless", "python3", "python3-venv", "tini", "tzdata")
USER, HOME = 10001, "/var/lib/neve"
PASSWD = f"neve:x:{USER}:{USER}::{HOME}:/usr/sbin/nologin\n"


def choose_builder() -> str | None:
    """Return the first builder that answers; a client of docker without its server does not."""
    for name in BUILDERS:
        if shutil.which(name) and subprocess.run([name, "info"], capture_output=True, check=False).returncode == 0:
            return name
    return None


def find_wheel(folder: Path) -> Path:
    """Return the newest wheel of Neve."""
    found = sorted(folder.glob("neve-*.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise SystemExit(f"no wheel in {folder}: run `make dist`")
    return found[-1]


def find_obstacle() -> str | None:
    """Return the reason why no root file system can be made here, or none."""
    if os.geteuid() != 0:
        return "a root file system is made by root only"
    if not shutil.which("mmdebstrap"):
        return "mmdebstrap is absent: apt-get install mmdebstrap"
    if sys.version_info[:2] != (3, 11):
        return f"Debian {SUITE} has Python 3.11, and this is Python {sys.version_info[0]}.{sys.version_info[1]}"
    return None


def build_image(builder: str, tag: str) -> None:
    """Build the container file."""
    command = [builder, "bud" if builder == "buildah" else "build"]
    subprocess.run([*command, "--file", "deploy/Containerfile", "--tag", tag, "."], cwd=ROOT, check=True)


def build_root(folder: Path, wheel: Path) -> None:
    """Make the root file system in a folder, which is replaced as a whole at the end."""
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.parent.mkdir(parents=True, exist_ok=True)
    install_debian(draft)
    install_neve(draft, wheel)
    add_user(draft)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)


def install_debian(root: Path) -> None:
    """Install Debian's packages, from the mirrors of this machine if it runs Debian."""
    sources = [str(path) for path in Path("/etc/apt/sources.list.d").glob("debian.sources")]
    options = ["--variant=minbase", "--quiet", f"--include={','.join(PACKAGES)}"]
    # Java's package wants the folder of manual pages.
    options += ['--aptopt=APT::Install-Recommends "false"', '--essential-hook=mkdir -p "$1/usr/share/man/man1"']
    subprocess.run(["mmdebstrap", *options, SUITE, str(root), *sources], check=True)


def install_neve(root: Path, wheel: Path) -> None:
    """Install Neve, its packages and its jars.

    Downloads happen outside of the root, with the settings of this machine.
    """
    wheels = root / "build"
    wheels.mkdir()
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--wheel-dir", str(wheels)]
    subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "image.lock")], check=True)
    shutil.copy(wheel, wheels)
    names = [f"/build/{path.name}" for path in sorted(wheels.glob("*.whl"))]
    run_inside(root, ["python3", "-m", "venv", "/opt/neve"])
    run_inside(root, ["/opt/neve/bin/pip", "install", "--quiet", "--no-index", "--no-deps", *names])
    shutil.rmtree(wheels)
    from neve.lake.spark.jars import ALL, local_paths  # noqa: PLC0415 - after the check of the command line

    jars = root / "opt" / "neve" / "cache" / "jars"
    jars.mkdir(parents=True)
    for path in local_paths(ALL):
        shutil.copy(path, jars)
    shutil.copy(ROOT / "deploy" / "image" / "entrypoint", root / "opt" / "neve" / "entrypoint")


def add_user(root: Path) -> None:
    """Add the user and its home; the JVM needs the entry in passwd."""
    with (root / "etc" / "passwd").open("a") as file:
        file.write(PASSWD)
    with (root / "etc" / "group").open("a") as file:
        file.write(f"neve:x:{USER}:\n")
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    home = root / HOME.lstrip("/")
    home.mkdir(parents=True, exist_ok=True)
    os.chown(home, USER, USER)


def run_inside(root: Path, command: Sequence[str]) -> None:
    """Run a command in the root file system, without variables of this machine."""
    environment = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
    subprocess.run(["chroot", str(root), *command], check=True, env=environment)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the image or the root file system, and print what was built."""
    parser = argparse.ArgumentParser(prog="python -m deploy.image.build", description="Build the image of Neve.")
    parser.add_argument("--tag", default="neve:latest", help="name of the image (default: %(default)s)")
    parser.add_argument("--root", action="store_true", help="make a root file system even if there is a builder")
    chosen = parser.parse_args(arguments)
    wheel = find_wheel(ROOT / "dist")
    if not chosen.root and (builder := choose_builder()):
        build_image(builder, chosen.tag)
        sys.stdout.write(f"{chosen.tag}: built by {builder}\n")
        return 0
    if obstacle := find_obstacle():
        sys.stderr.write(f"error: no image can be built: none of {', '.join(BUILDERS)} answers, and {obstacle}\n")
        return 1
    from neve.lake.spark.jars import find_cache_dir  # noqa: PLC0415 - as above

    # Not below the repository: tools and tests that walk through it would walk through /proc, too.
    folder = find_cache_dir() / "image" / "rootfs"
    build_root(folder, wheel)
    sys.stdout.write(f"{folder}: a root file system; `tar -C {folder} -c . | docker import - neve`\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
