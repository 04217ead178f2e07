"""What is remembered of an attempt while it lives: what was there before, what was staged, where it stands."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from neve.autopilot.layout import Layout
from neve.autopilot.stage.gain import LeftOut
from neve.errors import LakeError

if TYPE_CHECKING:
    from neve.lake.documents import Documents

SPACE = "autopilot.stages"


class State(StrEnum):
    """Where an attempt stands."""

    STAGING = "staging"
    STAGED = "staged"
    MERGED = "merged"
    ROLLED_BACK = "rolled_back"


@dataclass(frozen=True)
class Before:
    """The layout that a table's metadata had; a property that was not set is none."""

    schema_id: int
    spec_id: int
    order_id: int
    spec_ids: tuple[int, ...]  # all that the table had
    properties: dict[str, str | None]


@dataclass(frozen=True)
class Record:
    """One attempt. `base` is the snapshot that the branch was made at, `files` what is rewritten (none: everything)."""

    id: str
    table: str
    state: State
    branch: str
    base: int
    layout: Layout
    properties: dict[str, str | None]
    before: Before
    files: tuple[str, ...] | None = None
    left_out: tuple[LeftOut, ...] = ()  # what is not among `files`, where those that gain were chosen
    sets_order: bool = False  # whether the table gets another sort order
    spec_id: int | None = None  # of the new layout, once the table has it
    schema_id: int | None = None  # of the schema with promoted columns, where one was staged
    order_id: int = 0  # that staged files name
    merged_from: int | None = None  # main before the merge, and after it
    merged_to: int | None = None
    message: str = ""  # of whoever merged it

    @property
    def new_spec(self) -> int | None:
        """The partition spec that was staged for this attempt, where there was none to use."""
        return self.spec_id if self.spec_id not in self.before.spec_ids else None

    def changed(self, **changes: Any) -> "Record":
        """The record with some changes."""
        return replace(self, **changes)


_RECORD = TypeAdapter(Record)


class Records:
    """Attempts in the state store."""

    def __init__(self, documents: "Documents") -> None:
        self._documents = documents

    def put(self, record: Record) -> Record:
        """Remember an attempt as it is now."""
        self._documents.put(SPACE, record.id, _RECORD.dump_python(record, mode="json"))
        return record

    def forget(self, attempt_id: str) -> None:
        """Forget an attempt that was taken back; one that is merged is needed as long as it may be."""
        record = self.find(attempt_id)
        if record is not None and record.state is State.ROLLED_BACK:
            self._documents.delete(SPACE, attempt_id)

    def find(self, attempt_id: str) -> Record | None:
        """What is known of an attempt."""
        document = self._documents.get(SPACE, attempt_id)
        return None if document is None else _RECORD.validate_python(document)

    def get(self, attempt_id: str) -> Record:
        """An attempt that must be known."""
        record = self.find(attempt_id)
        if record is None:
            raise LakeError(
                f"nothing is known of the attempt {attempt_id!r}", hint="`neve autopilot history` lists attempts"
            )
        return record
