"""Proposals as branches of a local git repository, alone or as the clone of a remote.

Merging a branch into the default branch approves it, deleting the branch rejects it. A stale proposal becomes a tag
`neve/stale/…` with the reason. `refs/neve/proposed/…` records each proposal, so that a deleted branch is distinguished
from one that never existed. With a remote, all of this happens on the remote. Without a remote, `git` runs without the
user's configuration.
"""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from neve.autopilot.propose.forge import ForgeError, ObservedChange, PostedChange, choose_action
from neve.autopilot.propose.proposal import escape_name, proposal_path
from neve.errors import EnvironmentFault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neve.autopilot.config import ProposeConfig
    from neve.autopilot.propose.forge import ChangeStatus, ProposedChange


# Environment for access to a remote: the user's git configuration, keys, proxies and certificates.
REMOTE_VARIABLES = ("HOME", "SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE")
# No hooks, no signatures that require a passphrase, no garbage collection in the background.
GIT_OPTIONS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"),
    *("-c", "tag.gpgSign=false", "-c", "gc.auto=0"),
)
MAX_ERROR_CHARACTERS = 500
_LOGIN = re.compile(r"://[^@/\s]+@")


class Git:
    """Git commands in one repository, with the configured author."""

    def __init__(self, folder: Path, config: ProposeConfig) -> None:
        self._folder, self._timeout = folder, config.timeout_seconds
        self._environment = build_environment(config)

    def run(
        self, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> str:
        """Return the output of a command.

        Raises `ForgeError` if it fails.
        """
        done = self._execute(arguments, stdin, env or {}, folder or self._folder)
        if done.returncode:
            raise ForgeError(
                f"git {arguments[0]} failed in {folder or self._folder}: {_format_error(done.stderr)}",
                hint="the repository of table specs is autopilot.propose.repository",
            )
        return done.stdout.decode(errors="replace")

    def succeeds(self, *arguments: str) -> bool:
        """Return whether a command succeeds."""
        return self._execute(arguments, "", {}, self._folder).returncode == 0

    def commit_of(self, ref: str) -> str | None:
        """Return the commit of a ref, or None."""
        done = self._execute(("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"), "", {}, self._folder)
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def file(self, ref: str, path: str) -> str | None:
        """Return a file of a commit, or None."""
        if self.commit_of(ref) is None or not self.succeeds("cat-file", "-e", f"{ref}:{path}"):
            return None
        return self.run("cat-file", "blob", f"{ref}:{path}")

    def commit(self, base: str | None, files: Mapping[str, str], message: str) -> str:
        """Create a commit of some files on top of another; no branch and no work tree is changed."""
        with TemporaryDirectory() as scratch:
            env = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
            self.run("read-tree", *([base] if base else ["--empty"]), env=env)
            for path, text in files.items():
                blob = self.run("hash-object", "-w", "--stdin", stdin=text).strip()
                self.run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", env=env)
            tree = self.run("write-tree", env=env).strip()
        return self.run("commit-tree", tree, *(["-p", base] if base else []), "-F", "-", stdin=message).strip()

    def tag(self, commit: str, name: str, message: str) -> str:
        """Create a tag object; no ref points to it yet."""
        tagger = self.run("var", "GIT_COMMITTER_IDENT").strip()
        return self.run(
            "mktag", stdin=f"object {commit}\ntype commit\ntag {name}\ntagger {tagger}\n\n{message}"
        ).strip()

    def _execute(
        self, arguments: tuple[str, ...], stdin: str, env: Mapping[str, str], folder: Path
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                ["git", *GIT_OPTIONS, *arguments],
                cwd=folder,
                env={**self._environment, **env},
                input=stdin.encode(),
                capture_output=True,
                timeout=self._timeout,
                check=False,
            )
        except FileNotFoundError as error:
            raise EnvironmentFault("can't run git", hint="install git, and add it to PATH") from error
        except subprocess.TimeoutExpired as error:
            raise ForgeError(
                f"git {arguments[0]} took more than {self._timeout:.0f} s", hint="see autopilot.propose.timeout_seconds"
            ) from error


def build_environment(config: ProposeConfig) -> dict[str, str]:
    """Return the environment of git: PATH, the author and, only with a remote, the user's variables for it."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    if config.remote:
        environment |= {name: os.environ[name] for name in REMOTE_VARIABLES if name in os.environ}
    else:
        environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": config.author_name, f"GIT_{role}_EMAIL": config.author_email}
    return environment


def _format_error(stderr: bytes) -> str:
    """Return the error message of git, without the credentials that a URL may contain."""
    return _LOGIN.sub("://…@", stderr.decode(errors="replace").strip())[-MAX_ERROR_CHARACTERS:]


# Not HEAD: a user may check out a proposal to read it, which doesn't make it the default branch.
DEFAULT_BRANCHES = ("main", "master")
README = """\
# Table specs

Each file here is the layout of one table. Neve's autopilot proposes changes as branches `neve/autopilot/…`:

- `git merge neve/autopilot/TABLE/ID` approves one,
- `git branch -D neve/autopilot/TABLE/ID` rejects one,
- `proposals/TABLE/ID.md` on the branch describes its gain and its cost.
"""


class SpecRepository:
    """Branches and other refs.

    With a remote they are those of the remote, as of the last `prepare`.
    """

    def __init__(self, config: ProposeConfig) -> None:
        self._remote, self._configured = config.remote, config.default_branch
        self._folder = Path(config.repository).expanduser().resolve()
        self._heads = f"refs/remotes/{config.remote}" if config.remote else "refs/heads"
        self.git = Git(self._folder, config)

    def prepare(self) -> None:
        """Create the repository if there is none, and fetch from the remote."""
        if not (self._folder / ".git").exists() and not (self._folder / "HEAD").exists():
            self._create()
        if self._remote:
            heads = f"+refs/heads/*:{self._heads}/*"
            own = ("+refs/neve/*:refs/neve/*", "+refs/tags/neve/*:refs/tags/neve/*")
            self.git.run("fetch", "--quiet", "--prune", "--no-tags", self._remote, heads, *own)

    def default_branch(self) -> str:
        """Return the default branch, which approves a change when it is merged into it."""
        for name in [self._configured] if self._configured else DEFAULT_BRANCHES:
            if self.head(name) is not None:
                return name
        raise ForgeError(
            f"the repository {self._folder} has no branch {self._configured or ' or '.join(DEFAULT_BRANCHES)}",
            hint="create it with a commit, or set autopilot.propose.default_branch",
        )

    def ref(self, branch: str) -> str:
        """Return the full name of a branch."""
        return f"{self._heads}/{branch}"

    def head(self, branch: str) -> str | None:
        """Return the commit of a branch, or None."""
        return self.git.commit_of(self.ref(branch))

    def move(self, branch: str, commit: str | None, others: dict[str, str | None]) -> None:
        """Set or delete a branch and other refs.

        Raises `ForgeError` if the branch is checked out.
        """
        there = None if self._remote else self.find_work_tree(branch)
        if there and self.head(branch) != commit:
            raise ForgeError(
                f"the branch {branch} is checked out in {there} and can't be changed",
                hint="check out another branch there",
            )
        if self._remote:
            refs = {f"refs/heads/{branch}": commit, **others}
            names = [f"+{one}:{ref}" if one else f":{ref}" for ref, one in refs.items()]
            self.git.run("push", "--quiet", "--atomic", self._remote, *names)
            self.prepare()
            return
        refs = {self.ref(branch): commit, **others}
        lines = [f"update {ref} {one}\n" if one else f"delete {ref}\n" for ref, one in refs.items()]
        self.git.run("update-ref", "--stdin", stdin="".join(lines))

    def merge(self, branch: str, title: str) -> None:
        """Merge a branch into the default branch, in its work tree or, if it has none, in a temporary one."""
        default = self.default_branch()
        there = None if self._remote else self.find_work_tree(default)
        if there:
            self._merge_in_folder(there, branch, title)
            return
        with self._temporary_work_tree(default) as folder:
            self._merge_in_folder(folder, branch, title)
            merged, began = self.git.run("rev-parse", "HEAD", "HEAD^1", folder=folder).split()
        if self._remote:
            self.git.run("push", "--quiet", self._remote, f"{merged}:refs/heads/{default}")
        else:
            # Only from the commit where the merge began: commits that others added since are not undone.
            self.git.run("update-ref", self.ref(default), merged, began)

    def find_work_tree(self, branch: str) -> Path | None:
        """Return the work tree that has a branch checked out, if any."""
        folder = None
        for line in self.git.run("worktree", "list", "--porcelain").splitlines():
            key, _, value = line.partition(" ")
            if key == "worktree":
                folder = Path(value)
            if key == "branch" and value == f"refs/heads/{branch}":
                return folder
        return None

    def private_folder(self) -> Path:
        """Return the folder for files that are on no branch."""
        return Path(self.git.run("rev-parse", "--path-format=absolute", "--git-common-dir").strip()) / "neve"

    def _create(self) -> None:
        if self._remote:
            raise ForgeError(f"{self._folder} is not a git repository", hint="clone the remote repository there")
        if self._folder.exists() and any(self._folder.iterdir()):
            raise ForgeError(
                f"{self._folder} has files, but is not a git repository; expected a repository or an empty folder",
                hint="set autopilot.propose.repository to a separate folder",
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        branch = self._configured or DEFAULT_BRANCHES[0]
        self.git.run("init", "--quiet", "--template=", f"--initial-branch={branch}")
        self.git.run("update-ref", self.ref(branch), self.git.commit(None, {"README.md": README}, "Begin\n"))
        self.git.run("reset", "--quiet", "--hard")

    def _merge_in_folder(self, folder: Path, branch: str, title: str) -> None:
        try:
            self.git.run("merge", "--no-ff", "-m", title, self.ref(branch), folder=folder)
        except ForgeError:
            if self.git.succeeds("-C", str(folder), "rev-parse", "--quiet", "--verify", "MERGE_HEAD"):
                self.git.run("merge", "--abort", folder=folder)
            raise

    @contextmanager
    def _temporary_work_tree(self, branch: str) -> Iterator[Path]:
        with TemporaryDirectory() as scratch:
            folder = Path(scratch) / "tree"
            self.git.run("worktree", "add", "--quiet", "--detach", str(folder), self.ref(branch))
            try:
                yield folder
            finally:
                self.git.run("worktree", "remove", "--force", str(folder))


class LocalGit:
    """A repository of specs in a folder; it is created if there is none."""

    def __init__(self, config: ProposeConfig) -> None:
        self._patches = config.patches
        self._repository = SpecRepository(config)
        self._git = self._repository.git

    def propose(self, change: ProposedChange) -> PostedChange:
        """Put a commit on the change's branch, and write it as a patch."""
        observed = self.fetch_state(change)
        if choose_action(change, observed) == "leave":
            return PostedChange(change.branch, observed.place, "left")
        files = {
            change.path: change.apply(observed.default_text),
            proposal_path(change.table, change.id): change.body,
        }
        there = self._repository.head(change.branch)
        if there and observed.status == "open" and all(self._git.file(there, path) == files[path] for path in files):
            return PostedChange(change.branch, observed.place, "unchanged", self._write_patch(change, there))
        commit = self._git.commit(self._repository.head(observed.default_branch), files, change.message)
        removed_refs = {_stale_ref(change): None} if observed.stale else {}
        self._repository.move(change.branch, commit, {_proposed_ref(change): commit, **removed_refs})
        is_known = observed.status == "open" or observed.stale
        return PostedChange(
            change.branch, observed.place, "updated" if is_known else "opened", self._write_patch(change, commit)
        )

    def fetch_state(self, change: ProposedChange) -> ObservedChange:
        """Return the state of the branch."""
        self._repository.prepare()
        default = self._repository.default_branch()
        default_text = self._git.file(self._repository.ref(default), change.path)
        return ObservedChange(
            status=self._status(change, default, default_text),
            place=change.branch,
            default_branch=default,
            default_text=default_text,
            branch_text=self._git.file(self._repository.ref(change.branch), change.path),
            stale=self._git.commit_of(_stale_ref(change)) is not None,
        )

    def merge(self, change: ProposedChange) -> None:
        """Merge the branch, if it still has the proposed content."""
        observed = self.fetch_state(change)
        if observed.status != "open" or not change.is_after(observed.branch_text):
            raise ForgeError(f"the branch {change.branch} can't be merged: it is missing, or its content has changed")
        self._repository.merge(change.branch, change.title)

    def mark_stale(self, change: ProposedChange, reason: str) -> None:
        """Replace the branch by a tag with the reason."""
        observed, commit = self.fetch_state(change), self._repository.head(change.branch)
        if commit is None or observed.status != "open":
            return
        tag = self._git.tag(commit, _stale_ref(change).removeprefix("refs/tags/"), f"stale: {reason}\n")
        self._repository.move(change.branch, None, {_stale_ref(change): tag})
        self._patch(change).unlink(missing_ok=True)

    def close(self) -> None:
        """Do nothing, because no connection is open."""

    def _status(self, change: ProposedChange, default: str, default_text: str | None) -> ChangeStatus:
        """Return the status of a change; a change that was squashed leaves only its file on the default branch."""
        proposed = self._git.commit_of(_proposed_ref(change))
        if proposed is None:
            return "missing"
        is_in = self._git.succeeds("merge-base", "--is-ancestor", proposed, self._repository.ref(default))
        if is_in or change.is_after(default_text):
            return "merged"
        return "closed" if self._repository.head(change.branch) is None else "open"

    def _patch(self, change: ProposedChange) -> Path:
        folder = Path(self._patches).expanduser().resolve() if self._patches else self._repository.private_folder()
        return folder / f"{escape_name(change.table)}-{escape_name(change.id)}.patch"

    def _write_patch(self, change: ProposedChange, commit: str) -> str:
        patch = self._patch(change)
        patch.parent.mkdir(parents=True, exist_ok=True)
        patch.write_text(self._git.run("format-patch", "-1", "--stdout", commit), encoding="utf-8")
        return str(patch)


def _proposed_ref(change: ProposedChange) -> str:
    return f"refs/neve/proposed/{escape_name(change.table)}/{escape_name(change.id)}"


def _stale_ref(change: ProposedChange) -> str:
    return f"refs/tags/neve/stale/{escape_name(change.table)}/{escape_name(change.id)}"
