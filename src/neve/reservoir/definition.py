"""The sample as Spark SQL: the one definition behind the aggregate and the transform.

`collect_top_k`, an aggregate that Spark keeps for itself, holds the largest k + 1 entries of a group in each partition
and merges them after the shuffle: what can't be in the sample is cut before it.
"""

from __future__ import annotations

from neve.reservoir.chance import hash_sql, uniform_sql
from neve.reservoir.reference import LARGEST_WEIGHT

TOP = "neve_top_k"  # the name that `collect_top_k` has in our sessions
REFUSED = "neve: weight of item"


def weight_sql(weight: str, key: str) -> str:
    """A weight that can be sampled by; none at all counts as 1, and one of 0 or less, or too large, ends the job."""
    words = f"concat('{REFUSED} ', to_json(named_struct('key', {key})), ' is ', {weight})"
    return (
        f"(CASE WHEN {weight} IS NULL THEN 1D WHEN {weight} > 0D AND {weight} < {LARGEST_WEIGHT}D "
        f"THEN CAST({weight} AS DOUBLE) ELSE CAST(raise_error({words}) AS DOUBLE) END)"
    )


def top_sql(key: str, weight: str, k: str, salt: int, *more: str) -> str:
    """The entries of a group that matter, the largest first: those that are kept, and the first that is not.

    Entries are compared by weight / chance, then by key; `more` are expressions that salt the chance further.
    """
    checked = weight_sql(weight, key)
    chance = uniform_sql(hash_sql(salt, *more, key))
    entry = f"named_struct('priority', {checked} / {chance}, 'key', {key}, 'weight', {checked})"
    return f"{TOP}({entry}, {k} + 1, false)"


def threshold_sql(top: str, k: str) -> str:
    """What a light item stands for: the priority of the first that is not kept; 0 where all are."""
    return f"coalesce(get({top}, {k}).priority, 0D)"


def sample_sql(key: str, weight: str, k: str, salt: int, *more: str) -> str:
    """The sample of a group as an array of values and what each stands for."""
    top = top_sql(key, weight, k, salt, *more)
    kept = f"slice({top}, 1, {k})"
    entry = "named_struct('value', one.key, 'adjusted_weight', greatest(one.weight, light))"
    # The threshold goes in as an array: a name inside a lambda could not be told from the lambda's own.
    return f"zip_with({kept}, array_repeat({threshold_sql(top, k)}, size({kept})), (one, light) -> {entry})"
