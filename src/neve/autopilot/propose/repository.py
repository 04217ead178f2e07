"""A git repository of specs in a folder, alone or as the clone of a remote that has the last word."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from neve.autopilot.propose.git import Git
from neve.autopilot.propose.port import ForgeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.autopilot.propose_config import ProposeConfig

# Not HEAD: whoever checks out a proposal to look at it has not made it the default branch.
USUAL_BRANCHES = ("main", "master")
README = """\
# Table specs

Each file in here is the layout of one table. Neve's autopilot proposes changes as branches `neve/autopilot/…`:

- `git merge neve/autopilot/TABLE/ID` approves one,
- `git branch -D neve/autopilot/TABLE/ID` rejects one,
- `proposals/TABLE/ID.md` on the branch says what it brings and what it costs.
"""


class Repository:
    """Branches and other refs. With a remote they are those of the remote, as of the last `prepare`."""

    def __init__(self, config: ProposeConfig) -> None:
        self._remote, self._configured = config.remote, config.default_branch
        self._folder = Path(config.repository).expanduser().resolve()
        self._heads = f"refs/remotes/{config.remote}" if config.remote else "refs/heads"
        self.git = Git(self._folder, config)

    def prepare(self) -> None:
        """Make a repository where there is none; fetch what the remote has."""
        if not (self._folder / ".git").exists() and not (self._folder / "HEAD").exists():
            self._create()
        if self._remote:
            heads = f"+refs/heads/*:{self._heads}/*"
            own = ("+refs/neve/*:refs/neve/*", "+refs/tags/neve/*:refs/tags/neve/*")
            self.git.run("fetch", "--quiet", "--prune", "--no-tags", self._remote, heads, *own)

    def default_branch(self) -> str:
        """The branch that approves what is merged into it."""
        for name in [self._configured] if self._configured else USUAL_BRANCHES:
            if self.head(name) is not None:
                return name
        raise ForgeError(
            f"the repository {self._folder} has no branch {self._configured or ' or '.join(USUAL_BRANCHES)}",
            hint="commit something there, or set autopilot.propose.default_branch",
        )

    def ref(self, branch: str) -> str:
        """The full name of a branch."""
        return f"{self._heads}/{branch}"

    def head(self, branch: str) -> str | None:
        """The commit of a branch, or none."""
        return self.git.commit_of(self.ref(branch))

    def move(self, branch: str, commit: str | None, others: dict[str, str | None]) -> None:
        """Set or drop a branch and other refs; raises `ForgeError` where somebody has the branch checked out."""
        there = None if self._remote else self.checked_out(branch)
        if there and self.head(branch) != commit:
            raise ForgeError(
                f"the branch {branch} is checked out in {there}, it can't be changed", hint="check out another there"
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
        """Merge a branch into the default one, where that is checked out or else in a work tree for a moment."""
        default = self.default_branch()
        there = None if self._remote else self.checked_out(default)
        if there:
            self._merge_in(there, branch, title)
            return
        with self._scratch(default) as folder:
            self._merge_in(folder, branch, title)
            merged, began = self.git.run("rev-parse", "HEAD", "HEAD^1", folder=folder).split()
        if self._remote:
            self.git.run("push", "--quiet", self._remote, f"{merged}:refs/heads/{default}")
        else:
            # Only from where the merge began: what others committed meanwhile is not undone.
            self.git.run("update-ref", self.ref(default), merged, began)

    def checked_out(self, branch: str) -> Path | None:
        """The work tree that has a branch, if one has."""
        folder = None
        for line in self.git.run("worktree", "list", "--porcelain").splitlines():
            key, _, value = line.partition(" ")
            if key == "worktree":
                folder = Path(value)
            if key == "branch" and value == f"refs/heads/{branch}":
                return folder
        return None

    def private_folder(self) -> Path:
        """A folder for files that no branch has."""
        return Path(self.git.run("rev-parse", "--path-format=absolute", "--git-common-dir").strip()) / "neve"

    def _create(self) -> None:
        if self._remote:
            raise ForgeError(f"{self._folder} is no git repository", hint="clone the remote's there")
        if self._folder.exists() and any(self._folder.iterdir()):
            raise ForgeError(
                f"{self._folder} has files and is no git repository, expected one or an empty folder",
                hint="set autopilot.propose.repository to a folder of its own",
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        branch = self._configured or USUAL_BRANCHES[0]
        self.git.run("init", "--quiet", "--template=", f"--initial-branch={branch}")
        self.git.run("update-ref", self.ref(branch), self.git.commit(None, {"README.md": README}, "Begin\n"))
        self.git.run("reset", "--quiet", "--hard")

    def _merge_in(self, folder: Path, branch: str, title: str) -> None:
        try:
            self.git.run("merge", "--no-ff", "-m", title, self.ref(branch), folder=folder)
        except ForgeError:
            if self.git.holds("-C", str(folder), "rev-parse", "--quiet", "--verify", "MERGE_HEAD"):
                self.git.run("merge", "--abort", folder=folder)
            raise

    @contextmanager
    def _scratch(self, branch: str) -> Iterator[Path]:
        with TemporaryDirectory() as scratch:
            folder = Path(scratch) / "tree"
            self.git.run("worktree", "add", "--quiet", "--detach", str(folder), self.ref(branch))
            try:
                yield folder
            finally:
                self.git.run("worktree", "remove", "--force", str(folder))
