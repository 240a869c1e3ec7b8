"""The table in which searches look states up."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgedla.placement.solvers.streams.known_rows import KnownRows

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300)), min_size=1, max_size=30)


@given(known=ROWS, asked=ROWS)
def test_a_known_row_has_the_least_value_of_its_equals(
    known: List[Tuple[int, int]], asked: List[Tuple[int, int]]
) -> None:
    values = np.arange(len(known), 0.0, -1.0)
    table = KnownRows(np.array(known, np.int16), np.stack([values, -values], axis=1))
    at, is_known = table.find(np.array(asked, np.int16))
    for row, i, found in zip(asked, at.tolist(), is_known.tolist()):
        equals = [v for k, v in zip(known, values) if k == row]
        assert found == bool(equals)
        if equals:
            assert table.least[i].tolist() == [min(equals), -max(equals)]
