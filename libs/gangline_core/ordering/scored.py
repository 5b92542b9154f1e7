"""What an ordering gives back: named terms, one column of millionths each."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray


class Scored(Struct, frozen=True):
    """Terms of the score of each job, in the order of the jobs."""

    names: tuple[str, ...]
    columns: list[NDArray[np.int64]]

    def totals(self, rows: int) -> NDArray[np.int64]:
        """The score of each job: the sum of its terms."""
        return sum(self.columns, np.zeros(rows, dtype=np.int64))
