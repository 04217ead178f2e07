"""What it takes to make an existing table into the declared one: changes as data, and refusals by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.types import DoubleType, FloatType, IntegerType, ListType, LongType, MapType, NestedField, StructType

from neve.errors import IncompatibleTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

Path = tuple[str, ...]

WIDENINGS = {(IntegerType(), LongType()), (FloatType(), DoubleType())}


@dataclass(frozen=True)
class AddColumn:
    """A column, or a field of a nested one, that an older release did not have."""

    path: Path
    type: IcebergType
    comment: str | None

    def __str__(self) -> str:
        return f"add column {'.'.join(self.path)} {self.type}"


@dataclass(frozen=True)
class WidenColumn:
    """A number that needs more room now."""

    path: Path
    type: IcebergType

    def __str__(self) -> str:
        return f"widen column {'.'.join(self.path)} to {self.type}"


@dataclass(frozen=True)
class SetComment:
    """A comment that was written anew."""

    path: Path
    comment: str

    def __str__(self) -> str:
        return f"comment on {'.'.join(self.path)}: {self.comment}"


@dataclass(frozen=True)
class SetProperty:
    """A table property that is not there; one that is there is the user's and stays."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"set {self.name} = {self.value}"


Change = AddColumn | WidenColumn | SetComment | SetProperty


def schema_changes(table: str, existing: Schema, declared: Schema) -> tuple[Change, ...]:
    """The changes that need no rewrite; raises `IncompatibleTable` for the first that would."""
    return tuple(_fields(table, (), existing.fields, declared.fields))


def property_changes(existing: dict[str, str], declared: dict[str, str]) -> tuple[Change, ...]:
    """The declared properties that the table does not have."""
    return tuple(SetProperty(name, value) for name, value in declared.items() if name not in existing)


def _fields(
    table: str, path: Path, existing: tuple[NestedField, ...], declared: tuple[NestedField, ...]
) -> Iterator[Change]:
    known = {field.name: field for field in existing}
    for field in declared:
        here = (*path, field.name)
        if field.name not in known:
            if field.required:
                raise _incompatible(table, here, "is required, but older rows have no value for it")
            yield AddColumn(here, field.field_type, field.doc)
            continue
        if field.required and not known[field.name].required and not path:
            raise _incompatible(table, here, "is required, but the table allows nulls in it")
        yield from _type(table, here, known[field.name].field_type, field.field_type)
        if field.doc and field.doc != known[field.name].doc:
            yield SetComment(here, field.doc)


def _type(table: str, path: Path, existing: IcebergType, declared: IcebergType) -> Iterator[Change]:
    match existing, declared:
        case StructType(), StructType():
            yield from _fields(table, path, existing.fields, declared.fields)
        case ListType(), ListType():
            yield from _type(table, (*path, "element"), existing.element_type, declared.element_type)
        case MapType(), MapType():
            yield from _type(table, (*path, "key"), existing.key_type, declared.key_type)
            yield from _type(table, (*path, "value"), existing.value_type, declared.value_type)
        case _ if existing == declared or (declared, existing) in WIDENINGS:
            pass  # the same, or wider already: a newer release was here
        case _ if (existing, declared) in WIDENINGS:
            yield WidenColumn(path, declared)
        case _:
            raise _incompatible(table, path, f"is {existing}, expected {declared}")


def _incompatible(table: str, path: Path, what: str) -> IncompatibleTable:
    return IncompatibleTable(
        f"table {table}: column {'.'.join(path)} {what}",
        hint="rename the column or the table, or use another catalog or warehouse for this lake",
    )
