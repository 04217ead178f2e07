"""Children brought to their parents."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from neve.otap.star_rows import NONE, group_children, ids_of, number_rows, to_id_column

ids = st.lists(st.integers(NONE, 6), max_size=12)


@given(ids, ids)
def test_families_are_what_a_loop_would_find(parents: list[int], children: list[int]) -> None:
    """Each parent has the children that name its id, in their order; a row without an id has none."""
    found = group_children(np.array(parents, np.int64), np.array(children, np.int64))
    lists = found.lists(pa.array(range(len(children)), pa.int64())).to_pylist()
    assert lists == [
        [place for place, parent in enumerate(children) if parent == own and own != NONE] for own in parents
    ]


def test_ids_keep_their_gaps() -> None:
    """Rows without children have no id, and nulls come back as they were."""
    ids = number_rows(np.array([False, True, True]), 7)
    assert ids.tolist() == [NONE, 7, 8]
    assert to_id_column(ids, pa.uint32()).to_pylist() == [None, 7, 8]
    assert ids_of(to_id_column(ids, pa.uint16())).tolist() == ids.tolist()
