"""What records of the lake weigh: what the attribute `sampling.adjusted_count` says, which is text with a type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.errors import InputError, InvalidWeight
from neve.reservoir.definition import REFUSED
from neve.reservoir.reference import LARGEST_WEIGHT
from neve.reservoir.star.weights import ATTRIBUTE, NUMBER, refusal

if TYPE_CHECKING:
    from neve.reservoir.lake.config import LakeSampling

WEIGHT, KIND = f"attributes['{ATTRIBUTE}']", f"attribute_types['{ATTRIBUTE}']"
NUMBERS = "('string', 'int', 'double')"  # the types of attributes that may say a number
NAMELESS = "neve: a record without a record_id"

# Whatever else a value of such a name is, it was meant to say something: an empty one is no missing one.
_SAYS = f"({WEIGHT} IS NOT NULL OR {KIND} IS NOT NULL)"
_NUMBER = f"CASE WHEN {WEIGHT} RLIKE '^{NUMBER}\\\\z' THEN CAST({WEIGHT} AS DOUBLE) END"
_FITS = (
    f"(coalesce({KIND}, 'string') IN {NUMBERS} AND coalesce({_NUMBER} > 0D AND {_NUMBER} < {LARGEST_WEIGHT}D, false))"
)


def weight_sql(config: LakeSampling) -> str:
    """What a record weighs; one that says what can't be ends the job, or counts as 1."""
    if config.weights == "one":
        return "1D"
    wrong = "1D"
    if config.invalid_weights == "refuse":
        words = f"concat('{REFUSED} ', hex(record_id), ' is ', coalesce({KIND}, 'string'), ' ', coalesce({WEIGHT}, ''))"
        wrong = f"CAST(raise_error({words}) AS DOUBLE)"
    return f"CASE WHEN NOT {_SAYS} THEN 1D WHEN {_FITS} THEN {_NUMBER} ELSE {wrong} END"


def wrong_sql(config: LakeSampling) -> str | None:
    """Whether a record counts as 1 because it says what can't be; none where that does not happen."""
    if config.weights == "one" or config.invalid_weights == "refuse":
        return None
    return f"({_SAYS} AND NOT {_FITS})"


def key_sql() -> str:
    """What tells a record from others: by what it is, wherever it lies."""
    return f"coalesce(record_id, CAST(raise_error('{NAMELESS}') AS BINARY))"


def refused(error: Exception, table: str) -> InputError | None:
    """What Spark says of records that can't be sampled, in our words; none where it says something else."""
    hint = "nothing was changed; set reservoir.lake.invalid_weights: one to count such records as 1"
    found = refusal(error)
    if found is not None:
        return InvalidWeight(f"{table}: {found.message}", hint=hint)
    if NAMELESS in str(error):
        return InputError(
            f"{table} has records without a record_id, which can't be told apart",
            hint="rows that Neve takes in have one; nothing was changed",
        )
    return None
