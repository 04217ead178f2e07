"""Take an OTAP folder in: the job of files, with root files for files and a part for what belongs to each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from neve.ingest.files.job import OTAP, FileJob, FileRequest, Say, Taken
from neve.ingest.files.plan import Skipped, cut
from neve.ingest.gather import gather
from neve.ingest.otap.find import Folder, base_of, look_into, root_of, signal_of
from neve.ingest.otap.result import OtapResult
from neve.ingest.otap.task import OtapOutcome, OtapTask
from neve.ingest.publish import Publisher, total
from neve.lake.lane import parallelism, run_tasks
from neve.otap.part_ids import offsets_of_part
from neve.otap.read import PartFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.ingest.config import IngestConfig
    from neve.ingest.files.find import SourceFile
    from neve.ingest.files.hashing import HashedFile
    from neve.ingest.gather import Written
    from neve.lake.lake import Lake


SCANS_EACH = 4  # tasks that look at ids, for each core: a part takes little more than a task takes to start


def ingest_otap(
    lake: Lake, config: IngestConfig, folder: str, organization_id: str, say: Say = lambda *_: None
) -> OtapResult:
    """Take in every root file of a folder that the lake does not have yet. `say` is told the step and how far it is."""
    base = base_of(folder)
    looked = look_into(base, lake.s3)
    job = OtapJob(lake, config, FileRequest((base,), organization_id), say, looked.found, folders={base: looked})
    result = job.run()
    return OtapResult(result, dict(job.conventions), dict(+job.losses), looked.other_tables)


@dataclass(frozen=True)
class OtapJob(FileJob):
    """One run of `neve otap import`."""

    folders: dict[str, Folder] = field(default_factory=dict)
    losses: Counter[str] = field(default_factory=Counter)
    conventions: Counter[str] = field(default_factory=Counter)

    @cached_property
    def publisher(self) -> Publisher:
        """Commits the batches of the run."""
        return Publisher(self.lake, self.config, "ingest-otap")

    def _knows(self, files: Sequence[HashedFile]) -> bool:
        return files[0].format == OTAP

    def _refuse_large(self, files: list[SourceFile], _taken: Taken) -> list[SourceFile]:
        """None: these files are read chunk by chunk, however large they are."""
        return files

    def _hash(self, files: list[SourceFile]) -> tuple[list[HashedFile], list[Skipped]]:
        hashed, unreadable = super()._hash(files)
        return [replace(file, signal=signal_of(file.source.path), format=OTAP) for file in hashed], unreadable

    def _outcome(self, told: dict[str, Any]) -> OtapOutcome:
        return OtapOutcome.from_json(told)

    def _take(self, batch_id: str, files: Sequence[HashedFile], taken: Taken) -> None:
        before = len(taken.outcomes)
        super()._take(batch_id, files, taken)
        for outcome in taken.outcomes[before:]:
            if isinstance(outcome, OtapOutcome):
                self.losses.update(outcome.losses)

    def _decode(self, batch_id: str, files: Sequence[HashedFile]) -> Written:
        """Data files for every table that does not have the batch yet."""
        spark = self.lake.spark
        parts = self._parts([file.source.path for file in files])
        groups = cut(files, self.config.task_bytes, at_least=parallelism(spark))
        assignment = self.publisher.assign(batch_id, self.publisher.tables(), writers=len(groups))
        task = OtapTask(assignment, self.request.organization_id, groups, parts)
        frame = spark.range(0, len(groups), 1, len(groups))
        tell = partial(self.say, "decoding")
        return total(self.lake.exchange.run(frame, task.scatter, partial(gather, assignment), len(groups), tell))

    def _parts(self, paths: Sequence[str]) -> dict[str, PartFiles]:
        """The part of each root file; whether its ids are as specified is found out once for each part."""
        named: dict[tuple[str, str], dict[str, list[str]]] = {}
        part_of: dict[str, tuple[str, str]] = {}
        for path in paths:
            base = root_of(path)[0]
            folder = self._folder(base)
            part_of[path] = base, folder.part_of.get(path, "")
            named[part_of[path]] = folder.parts.get(part_of[path][1], {})
        find = partial(offsets_of_part, self.lake.s3)
        spark = self.lake.spark
        tell, slices = partial(self.say, "ids"), SCANS_EACH * parallelism(spark)
        offsets = run_tasks(spark, find, list(named.values()), tell, slices)
        self.conventions.update("specification" if one is None else "exporter" for one in offsets)
        parts = {key: PartFiles(named[key], one) for key, one in zip(named, offsets, strict=True)}
        return {path: parts[key] for path, key in part_of.items()}

    def _folder(self, base: str) -> Folder:
        if base not in self.folders:
            self.folders[base] = look_into(base, self.lake.s3)
        return self.folders[base]
