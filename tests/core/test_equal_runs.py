"""Small numbers for equal values of a column."""

import numpy as np
import pytest

from gangline_core.equal_runs import SPREAD_MAX, small


@pytest.mark.parametrize("values", [[], [7], [5, 9, 5, 6], [3, 40 * SPREAD_MAX, 3, SPREAD_MAX], [-2, 10**15, -2]])
def test_small_numbers_are_equal_where_the_values_are_keep_their_order_and_are_few(values: list[int]) -> None:
    found = small(np.array(values, dtype=np.int64)).tolist()
    assert [sorted(set(found)).index(one) for one in found] == [sorted(set(values)).index(one) for one in values]
    assert all(0 <= one < SPREAD_MAX for one in found)
