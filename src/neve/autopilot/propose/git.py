"""The command `git`, without what a user's environment would add to it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from neve.autopilot.propose.port import ForgeError
from neve.errors import EnvironmentFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.autopilot.propose_config import ProposeConfig

# What reaching a remote takes: a user's own git configuration, keys, proxies and certificates.
FOR_REMOTES = ("HOME", "SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE")
# No hooks, no signatures that ask for a passphrase, no clean-up in the background.
ALWAYS = ("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", "-c", "tag.gpgSign=false", "-c", "gc.auto=0")
MOST_WORDS = 500
_LOGIN = re.compile(r"://[^@/\s]+@")


class Git:
    """Commands in one repository, in the author's name."""

    def __init__(self, folder: Path, config: ProposeConfig) -> None:
        self._folder, self._timeout = folder, config.timeout_seconds
        self._environment = environment(config)

    def run(
        self, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> str:
        """What a command says; raises `ForgeError` where it fails."""
        done = self._done(arguments, stdin, env or {}, folder or self._folder)
        if done.returncode:
            raise ForgeError(
                f"git {arguments[0]} failed in {folder or self._folder}: {_words(done.stderr)}",
                hint="the repository of table specs is autopilot.propose.repository",
            )
        return done.stdout.decode(errors="replace")

    def holds(self, *arguments: str) -> bool:
        """Whether a question has the answer yes."""
        return self._done(arguments, "", {}, self._folder).returncode == 0

    def commit_of(self, ref: str) -> str | None:
        """The commit that a ref stands for, or none."""
        done = self._done(("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"), "", {}, self._folder)
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def file(self, ref: str, path: str) -> str | None:
        """A file of a commit, or none."""
        if self.commit_of(ref) is None or not self.holds("cat-file", "-e", f"{ref}:{path}"):
            return None
        return self.run("cat-file", "blob", f"{ref}:{path}")

    def commit(self, base: str | None, files: Mapping[str, str], message: str) -> str:
        """A commit of some files on top of another; no branch and no work tree is touched."""
        with TemporaryDirectory() as scratch:
            env = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
            self.run("read-tree", *([base] if base else ["--empty"]), env=env)
            for path, text in files.items():
                blob = self.run("hash-object", "-w", "--stdin", stdin=text).strip()
                self.run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", env=env)
            tree = self.run("write-tree", env=env).strip()
        return self.run("commit-tree", tree, *(["-p", base] if base else []), "-F", "-", stdin=message).strip()

    def tag(self, commit: str, name: str, message: str) -> str:
        """The object of a tag; no ref has it yet."""
        tagger = self.run("var", "GIT_COMMITTER_IDENT").strip()
        return self.run(
            "mktag", stdin=f"object {commit}\ntype commit\ntag {name}\ntagger {tagger}\n\n{message}"
        ).strip()

    def _done(
        self, arguments: tuple[str, ...], stdin: str, env: Mapping[str, str], folder: Path
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                ["git", *ALWAYS, *arguments],
                cwd=folder,
                env={**self._environment, **env},
                input=stdin.encode(),
                capture_output=True,
                timeout=self._timeout,
                check=False,
            )
        except FileNotFoundError as error:
            raise EnvironmentFault("git can't be started", hint="install git, and have it on PATH") from error
        except subprocess.TimeoutExpired as error:
            raise ForgeError(
                f"git {arguments[0]} took more than {self._timeout:.0f} s", hint="see autopilot.propose.timeout_seconds"
            ) from error


def environment(config: ProposeConfig) -> dict[str, str]:
    """What git may know of the process: a way to programs, the author, and no more where there is no remote."""
    kept = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    if config.remote:
        kept |= {name: os.environ[name] for name in FOR_REMOTES if name in os.environ}
    else:
        kept |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    for role in ("AUTHOR", "COMMITTER"):
        kept |= {f"GIT_{role}_NAME": config.author_name, f"GIT_{role}_EMAIL": config.author_email}
    return kept


def _words(said: bytes) -> str:
    """What git complained of, without the login that an address may have."""
    return _LOGIN.sub("://…@", said.decode(errors="replace").strip())[-MOST_WORDS:]
