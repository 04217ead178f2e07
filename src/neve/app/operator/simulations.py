"""Simulations of sampling policies: requested as documents, run by workers as jobs, and kept with their results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from neve.app.reports import JobReport, Report
from neve.errors import ConfigError
from neve.jobs.job import Job, JobState, Task, WorkNotFound, WorkStateError
from neve.jobs.record import new_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.app.settings import Settings
    from neve.jobs.queue import JobQueue
    from neve.lake.lake import Lake
    from neve.state.documents import Documents
    from neve.tail.policy.tree import PolicySet

SPACE = "tail.simulations"
MAX_KEPT = 50
MAX_OPEN = 5
MAX_POLICY_CHARACTERS = 200_000
MAX_MOVES = 200
SOURCE = "the policies"
BUILT_IN = """\
policies:
  - name: errors
    type: error
  - name: slow
    type: latency
    latency: {{threshold_ms: {slow_ms}}}
  - name: rest
    type: probabilistic
    probabilistic: {{sampling_percentage: {percentage}}}
"""


class PolicyLine(Report):
    """One policy of a file."""

    name: str
    kind: str


class PolicyCheck(Report):
    """Result of checking a policy file: without problems, it can be simulated."""

    valid: bool
    problems: list[str] = Field(description="rejected settings")
    remarks: list[str] = Field(description="accepted settings without effect")
    policies: list[PolicyLine]
    semantics: str


class SimulationReport(Report):
    """A simulation; `result` compares the given policies (`new`) with the current ones (`old`)."""

    id: str
    created: datetime
    by: str
    since: datetime | None
    until: datetime | None
    price: float | None
    state: str = Field(description="queued, running, done, failed or cancelled")
    error: str
    policies: str = Field(description="the policy file")
    job: JobReport | None = Field(description="null if the job is no longer stored")
    result: dict[str, Any] | None = Field(description="volumes, missed errors, estimates, and the difference")


class SimulationLine(Report):
    """A simulation in a list."""

    id: str
    created: datetime
    by: str
    state: str
    error: str


@dataclass(frozen=True)
class SimulationRequest:
    """The policies of a simulation, and the traces that it reads."""

    policies: str
    since: datetime | None = None
    until: datetime | None = None
    price: float | None = None


def parse_policies(settings: Settings, text: str) -> PolicySet:
    """Parse policies that came over the network; raises `ConfigError`.

    Variables of the environment are not expanded, because they may be secrets of the server.
    """
    from neve.tail.policy.config.loader import read_policies  # noqa: PLC0415 - the sampler, for this alone
    from neve.tail.policy.config.yaml_document import find_expensive_part, read_text  # noqa: PLC0415

    if reason := find_expensive_part(text):
        raise ConfigError(f"{SOURCE} {reason}")
    return read_policies(read_text(text, SOURCE), settings.tail.semantics, "", environment={})


def check_policies(settings: Settings, text: str) -> PolicyCheck:
    """Check a policy file and return all of its problems."""
    semantics = settings.tail.semantics.value
    try:
        found = parse_policies(settings, text)
    except ConfigError as error:
        lines = error.message.splitlines()
        return PolicyCheck(valid=False, problems=lines, remarks=[], policies=[], semantics=semantics)
    policies = [PolicyLine(name=one.name, kind=one.kind) for one in found.policies]
    return PolicyCheck(valid=True, problems=[], remarks=list(found.remarks), policies=policies, semantics=semantics)


def read_current_policies(settings: Settings) -> tuple[str, str]:
    """Return the name of the configured policy file and its text, or a file that equals the built-in policies.

    Raises `ConfigError` if the file can't be read.
    """
    config = settings.tail
    if not config.policies:
        return "", BUILT_IN.format(slow_ms=config.slow_ms, percentage=config.percentage)
    path = Path(config.policies)
    try:
        return path.name, path.read_text(encoding="utf-8")[:MAX_POLICY_CHARACTERS]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"can't read the policy file {path.name}: {type(error).__name__}") from None


@dataclass(frozen=True)
class Simulations:
    """The simulations of a lake. The newest fifty are kept."""

    settings: Settings
    documents: Documents
    jobs: JobQueue

    def request(self, request: SimulationRequest, by: str) -> SimulationReport:
        """Request a simulation; raises `ConfigError` for wrong policies, `WorkStateError` if too many wait."""
        parse_policies(self.settings, request.policies)
        if request.since and request.until and request.until <= request.since:
            raise ConfigError(f"until is {request.until.isoformat()}, expected a time after since")
        waiting = self.jobs.list(states=(JobState.QUEUED, JobState.RUNNING), task=Task.SIMULATE)
        if len(waiting) >= MAX_OPEN:
            raise WorkStateError(
                f"{len(waiting)} simulations wait already, expected fewer than {MAX_OPEN}", hint="cancel one of them"
            )
        now = self.documents.now()
        simulation_id = new_id(now)
        self.documents.put(
            SPACE,
            simulation_id,
            {
                "created": now.isoformat(),
                "by": by,
                "policies": request.policies,
                "since": request.since.isoformat() if request.since else None,
                "until": request.until.isoformat() if request.until else None,
                "price": request.price,
            },
        )
        self.jobs.request(Task.SIMULATE, "", simulation_id, reason=f"what-if asked for by {by}")
        self._forget()
        return self.get(simulation_id)

    def get(self, simulation_id: str) -> SimulationReport:
        """Return a simulation; raises `WorkNotFound`."""
        document: dict[str, Any] | None = self._load(simulation_id)
        if document is None:
            raise WorkNotFound(
                f"there is no simulation {simulation_id[:100]!r}", hint=f"the newest {MAX_KEPT} are kept"
            )
        job = self._job(simulation_id)
        return SimulationReport(
            id=simulation_id,
            created=document["created"],
            by=document["by"],
            since=document["since"],
            until=document["until"],
            price=document["price"],
            state=find_state(document, job),
            error=document.get("error") or "",
            policies=document["policies"],
            job=JobReport.model_validate(job) if job else None,
            result=document.get("result"),
        )

    def list(self) -> list[SimulationLine]:
        """Return the simulations, newest first."""
        jobs = {job.window: job for job in self.jobs.list(task=Task.SIMULATE, limit=MAX_KEPT)}
        found: list[tuple[str, dict[str, Any]]] = list(self.documents.entries(SPACE))
        return [
            SimulationLine(
                id=key,
                created=document["created"],
                by=document["by"],
                state=find_state(document, jobs.get(key)),
                error=document.get("error") or "",
            )
            for key, document in reversed(found)
        ]

    def cancel(self, simulation_id: str) -> SimulationReport:
        """Cancel a simulation that has not ended; raises `WorkNotFound` or `WorkStateError`."""
        self.get(simulation_id)
        job = self._job(simulation_id)
        if job is None:
            raise WorkStateError(f"the simulation {simulation_id} has no job any more")
        self.jobs.cancel(job.id)
        return self.get(simulation_id)

    def run(self, simulation_id: str, lake: Lake, progress: Callable[[str, int, int], None]) -> str:
        """Run a simulation in a worker, store its result, and describe it. Its own errors are its result."""
        document = self._load(simulation_id)
        if document is None:
            return "nothing to do: its request was deleted"
        try:
            result = _simulate(self.settings, lake, document, progress)
        except ConfigError as error:
            self.documents.put(SPACE, simulation_id, {**document, "error": error.message})
            return f"failed: {error.message}"
        self.documents.put(SPACE, simulation_id, {**document, "result": result, "error": ""})
        return f"{result['new']['kept']['traces']:,} of {result['new']['before']['traces']:,} traces would be kept"

    def _load(self, simulation_id: str) -> dict[str, Any] | None:
        if not simulation_id.isalnum() or len(simulation_id) > 64:
            return None
        return self.documents.get(SPACE, simulation_id)

    def _job(self, simulation_id: str) -> Job | None:
        found = self.jobs.list(task=Task.SIMULATE, limit=MAX_KEPT)
        return next((job for job in found if job.window == simulation_id), None)

    def _forget(self) -> None:
        keys = [key for key, _document in self.documents.entries(SPACE)]
        for key in keys[:-MAX_KEPT]:
            self.documents.delete(SPACE, key)


def find_state(document: dict[str, Any], job: Job | None) -> str:
    """Return the state of a simulation."""
    if document.get("result"):
        return "done"
    if document.get("error"):
        return "failed"
    if job is None:
        return "cancelled"
    return {JobState.DEAD: "failed", JobState.DONE: "failed"}.get(job.state, job.state.value)


def _simulate(
    settings: Settings, lake: Lake, document: dict[str, Any], progress: Callable[[str, int, int], None]
) -> dict[str, Any]:
    from neve.app.tail import build_policies  # noqa: PLC0415 - the sampler, for this alone
    from neve.app.wiring import build_source_lake  # noqa: PLC0415
    from neve.tail.simulate.simulator import Period, Simulator  # noqa: PLC0415

    period = Period(
        *(datetime.fromisoformat(text) if text else None for text in (document["since"], document["until"]))
    )
    new, old = parse_policies(settings, document["policies"]), build_policies(settings.tail)
    source = build_source_lake(settings, lake)
    simulator = Simulator(source, settings.tail, period, document["price"], progress=progress)
    found = simulator.compare(new, old).as_document()
    for part in ("new", "old"):
        found[part]["snapshot_id"] = str(found[part]["snapshot_id"])
    return {**found, "moves": list(found["moves"])[:MAX_MOVES]}
