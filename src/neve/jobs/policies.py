"""The ordered job policies of a lake: matching them to tasks and tables, reading them from YAML, storing changed ones.

Policies of the settings and of files apply until others are written to the state store.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash
import yaml
from pydantic import TypeAdapter, ValidationError

from neve.errors import ConfigError, NeveError
from neve.jobs.policy import BUILT_IN, HORIZON, Policy, QuietWindow, build_default_policy, find_last_window
from neve.state.documents import dump_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from pydantic_core import ErrorDetails

    from neve.jobs.job import Task
    from neve.jobs.policy import Batch, Budget, Rule
    from neve.state.documents import Documents


@dataclass(frozen=True)
class MatchedRule:
    """A rule and its policy."""

    policy: str
    rule: Rule


@dataclass(frozen=True)
class QuietPeriod:
    """The quiet hours at a moment, and their policy."""

    policy: str
    window: QuietWindow
    endless: bool

    def __str__(self) -> str:
        until = "without end" if self.endless else f"until {self.window.end_words}"
        return f"quiet hours of policy {self.policy} {until}"


@dataclass(frozen=True)
class Policies:
    """The policies of users in order, and the default policy after them."""

    written: tuple[Policy, ...] = ()
    defaults: Policy = field(default_factory=lambda: build_default_policy(None))

    def __post_init__(self) -> None:
        counts = Counter(policy.name for policy in (*self.written, self.defaults))
        twice = next((name for name, count in counts.items() if count > 1), None)
        if twice is not None:
            more = "it is reserved" if twice == BUILT_IN else "it is used twice"
            raise ConfigError(f"a policy has the name {twice!r}, expected another one: {more}")

    @property
    def all(self) -> tuple[Policy, ...]:
        """The policies in the order of their evaluation."""
        return (*self.written, self.defaults)

    @property
    def plain(self) -> list[dict[str, Any]]:
        """Return the policies of users as JSON values, without unset keys."""
        return [policy.model_dump(mode="json", exclude_unset=True) for policy in self.written]

    def rule(self, task: Task, table: str) -> MatchedRule | None:
        """Return the first rule for a task of a table; a disabled rule counts too."""
        for policy in self.all:
            if task in policy.tasks and _matches(policy, table):
                return MatchedRule(policy.name, policy.tasks[task])
        return None

    def batch(self, task: Task, table: str) -> Batch | None:
        """Return the batch settings for commits; none if commits start no job."""
        found = self.rule(task, table)
        return found.rule.batch if found and found.rule.enabled else None

    def quiet_period(self, task: Task, table: str, now: datetime) -> QuietPeriod | None:
        """Return the quiet hours of a task and table now: those of all matching policies, whichever has the rule."""
        written = [
            (policy.name, quiet)
            for policy in self.all
            if _matches(policy, table)
            for quiet in policy.quiet
            if task in quiet.tasks
        ]
        last = find_last_window([quiet for _name, quiet in written], now)
        if last is None:
            return None
        # Reported with the name of the policy whose hours apply now; hours of another one may follow them.
        name = next(name for name, quiet in written if find_last_window([quiet], now))
        return QuietPeriod(name, last, endless=last.end - now >= HORIZON)

    def quiet(self, task: Task, table: str, now: datetime) -> str | None:
        """Return the quiet hours that prevent a task of a table from starting now as text; none if it may start."""
        found = self.quiet_period(task, table, now)
        return str(found) if found else None

    def budgets(self) -> list[Budget]:
        """Return the budgets in order; the first match counts for an organization."""
        return [budget for policy in self.all for budget in policy.budgets]

    def warnings(self, tables: Sequence[str]) -> list[str]:
        """Return warnings about rules that have no effect on a lake with these tables."""
        return [warning for policy in self.written for warning in self._warnings(policy, tables)]

    def _warnings(self, policy: Policy, tables: Sequence[str]) -> list[str]:
        from neve.jobs.routing import tables_for  # noqa: PLC0415 - Arrow, for those who check policies

        idle = [pattern for pattern in policy.tables if not any(fnmatchcase(name, pattern) for name in tables)]
        if len(idle) == len(policy.tables):
            return [f"policy {policy.name}: no table of the lake matches {', '.join(idle)}"]
        found = [f"policy {policy.name}: no table of the lake matches {pattern}" for pattern in idle]
        for task in policy.tasks:
            about = [name for name in tables_for(task, tables) if _matches(policy, name)]
            if not about:
                found.append(f"policy {policy.name}: {task} applies to none of its tables")
            elif not any(self._decides(policy, task, name) for name in about):
                found.append(f"policy {policy.name}: earlier policies have the rules for {task} of its tables")
        return found

    def _decides(self, policy: Policy, task: Task, table: str) -> bool:
        found = self.rule(task, table)
        return found is not None and found.policy == policy.name


def _matches(policy: Policy, table: str) -> bool:
    return any(fnmatchcase(table, pattern) for pattern in policy.tables)


PATTERNS = ("*.yaml", "*.yml")
POLICIES_KEY = "policies"
_LIST = TypeAdapter(tuple[Policy, ...])


def load_policies(settings: Sequence[Policy], folder: str, defaults: Policy) -> Policies:
    """Load the policies of the settings, then those of a folder's files in the order of their names."""
    found = [("the settings", policy) for policy in settings]
    found += [(str(path), policy) for path in _list_files(folder) for policy in read_policy_file(path)]
    _check_names(found)
    return Policies(tuple(policy for _where, policy in found), defaults)


def read_policy_file(path: Path) -> tuple[Policy, ...]:
    """Read the policies of a file: a list, a single policy, or either below the key `policies`."""
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        mark = error.context_mark or error.problem_mark
        line = f" (line {mark.line + 1})" if mark else ""
        raise ConfigError(f"{path} is not YAML{line}", hint="a text that begins with * needs quotes") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not UTF-8: {type(error).__name__}") from None
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None
    if isinstance(value, dict) and set(value) == {POLICIES_KEY}:
        value = value[POLICIES_KEY]
    return read_policies([value] if isinstance(value, dict) else value, str(path))


def read_policies(value: object, where: str) -> tuple[Policy, ...]:
    """Parse policies from plain values; raises `ConfigError` with the place, the policy, the key and the value."""
    if value is None:
        return ()
    try:
        return _LIST.validate_python(value)
    except ValidationError as error:
        raise ConfigError("\n".join(_format_errors(error, value, where))) from None


def _list_files(folder: str) -> list[Path]:
    if not folder:
        return []
    if not Path(folder).is_dir():
        raise ConfigError(f"policies_folder is {folder!r}, expected a folder of YAML files")
    return sorted((path for pattern in PATTERNS for path in Path(folder).glob(pattern)), key=lambda path: path.name)


def _check_names(found: Sequence[tuple[str, Policy]]) -> None:
    first: dict[str, str] = {}
    for where, policy in found:
        if policy.name in first:
            raise ConfigError(
                f"{where}: policy {policy.name!r} is in {first[policy.name]} already, expected another name"
            )
        first[policy.name] = where


def _format_errors(error: ValidationError, value: object, where: str) -> Iterator[str]:
    """Yield one line for each error."""
    for detail in error.errors(include_url=False, include_context=False):
        place = describe_location(detail["loc"], value)
        yield f"{where}: {place}: {_describe_error(detail)}" if place else f"{where}: {_describe_error(detail)}"


def describe_location(keys: Sequence[int | str], value: object) -> str:
    """Describe a location in a list of policies, with the name of the policy if it has one.

    >>> describe_location((0, "tasks", "compact", "cron"), [{"name": "nightly"}])
    "policy 'nightly': tasks.compact.cron"
    """
    if not keys:
        return ""
    first, *others = keys
    one = value[first] if isinstance(value, list | tuple) and isinstance(first, int) else None
    name = one.get("name") if isinstance(one, dict) else None
    policy = f"policy {name!r}" if isinstance(name, str) else f"policy {first}"
    rest = ".".join(str(key) for key in others if key != "[key]")
    return f"{policy}: {rest}" if rest else policy


def _describe_error(detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        return "unknown key"
    if detail["type"] == "missing":
        return "is missing"
    found: Any = detail["input"]
    value = type(found).__name__ if isinstance(found, dict | list) else repr(found)
    expected = detail["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix("String ")
    return f"got {value}, which {expected[0].lower()}{expected[1:]}"


SPACE, KEY = "policies", "written"


class PolicyConflict(NeveError):
    """Raised when the policies were changed since the caller read them."""


@dataclass(frozen=True)
class PolicyStore:
    """Store of policies: the configured ones apply until others are written, and again after these are cleared."""

    documents: Documents
    configured: Policies

    def load(self) -> Policies:
        """Return the policies in force."""
        return self._policies(self.documents.get(SPACE, KEY))

    def version(self) -> str:
        """Return the version of the policies in force, which changes with every change of them."""
        return hash_policies(self.load())

    def source(self) -> str:
        """Describe the origin of the policies in force."""
        document = self.documents.get(SPACE, KEY)
        if document is not None:
            return f"written by {document['by']} at {document['at']}, replacing those of the configuration"
        return "the configuration" if self.configured.written else "built in"

    def save(self, policies: Policies, by: str, expected: str | None = None) -> str:
        """Replace the policies and return their version; raises `PolicyConflict` if the current version differs."""
        while True:
            document = self.documents.get(SPACE, KEY)
            self._check(document, expected)
            value = {"policies": policies.plain, "by": by, "at": f"{self.now():%Y-%m-%dT%H:%M:%SZ}"}
            if self.documents.swap(SPACE, KEY, document, value):
                return hash_policies(policies)

    def clear(self, expected: str | None = None) -> str:
        """Return to the policies of the files, and return their version."""
        while True:
            document = self.documents.get(SPACE, KEY)
            self._check(document, expected)
            if document is None or self.documents.swap(SPACE, KEY, document, None):
                return hash_policies(self.configured)

    def now(self) -> datetime:
        """Return the time by the store's clock, which all processes share."""
        return self.documents.now()

    def _policies(self, document: dict[str, Any] | None) -> Policies:
        if document is None:
            return self.configured
        return Policies(read_policies(document["policies"], "the state store"), self.configured.defaults)

    def _check(self, document: dict[str, Any] | None, expected: str | None) -> None:
        found = hash_policies(self._policies(document))
        if expected is not None and expected != found:
            raise PolicyConflict(
                f"the policies have version {found}, expected {expected}: they were changed meanwhile",
                hint="read them again, and repeat the change",
            )


def hash_policies(policies: Policies) -> str:
    """Return the version of policies: equal ones have equal versions."""
    return str(xxhash.xxh3_64_hexdigest(dump_document({"policies": policies.plain}).encode()))
