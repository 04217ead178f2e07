"""Entries of attribute maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from neve.lake.attribute_maps import set_map_entry
from neve.model.columns import STRING_MAP

MAPS = st.none() | st.dictionaries(st.sampled_from("abk"), st.text(max_size=2) | st.none())


@given(st.lists(st.tuples(MAPS, st.text(max_size=3), st.booleans())), st.integers(0, 3))
def test_an_entry_replaces_an_earlier_one(cases: list[tuple[dict[str, Any] | None, str, bool]], cut: int) -> None:
    """Others stay as they are and in their order, whatever maps are null and wherever a column is cut."""
    maps = pa.array([None if one is None else list(one.items()) for one, _value, _marked in cases], STRING_MAP)
    values = pa.array([value for _entries, value, _marked in cases], pa.string())
    where = np.array([marked for _entries, _value, marked in cases], np.bool_)
    expected = [
        [*((key, value) for key, value in (entries or {}).items() if key != "k"), ("k", new)]
        if marked
        else None
        if entries is None
        else list(entries.items())
        for entries, new, marked in cases
    ]
    assert set_map_entry(maps, "k", values, where).to_pylist() == expected
    assert set_map_entry(maps[cut:], "k", values[cut:], where[cut:]).to_pylist() == expected[cut:]
