"""A world at which the oracles look on: every message of it, and once more its whole log when its test is over.

Whatever plays a run on the core in a test is `Watched`: the scenarios of `Drive` and `Clockwork`, the Hypothesis
machine, the tables of other systems. A fixture of `tests/conftest.py` closes all worlds that a test has made, so no
test can forget it.
"""

from collections.abc import Mapping
from typing import Any

from tests.make import World

from dollhouse.oracles import DECIDING, Oracles
from gangline_core import facts as f
from gangline_core.ids import JobId
from gangline_core.step import Step

STATES_EVERY = 8
"""Every so many messages the whole state is proven; the way from message to message always is."""
_open: list["Watched"] = []


class Watched(World):
    """A world that no promise is broken in unseen."""

    def __init__(self, *args: Any, states_every: int = STATES_EVERY, **kwargs: Any) -> None:
        """As a World; the oracles look on from its first message."""
        self.oracles = Oracles(states_every=states_every)
        self.invented: set[str] = set()
        """Kinds of lanes on which the test itself writes what nobody decided, such as "elastic"."""
        self._closed_seq = -1
        _open.append(self)
        super().__init__(*args, **kwargs)

    def tell(self, lane: str, *facts: f.Fact, at: int | None = None) -> Step:
        """Fold a message and look at what it did."""
        step = super().tell(lane, *facts, at=at)
        self.oracles.look(self.state, self.log[-1], step)
        return step

    def place(self, job: JobId, *where: Any, sizes: Mapping[str, int] | None = None) -> None:
        """Put a job somewhere by hand, which nobody decided."""
        self.invented.add("placement")
        super().place(job, *where, sizes=sizes)

    def close(self) -> None:
        """The run is over, for now: all of it folds and decides to the same again.

        Raises:
            BrokenOracleError: it does not, or its last state breaks a promise.
        """
        if self._closed_seq != len(self.log):
            self._closed_seq = len(self.log)
            self.oracles.close(self.state, deciding=set(DECIDING) - self.invented)


def close_all() -> None:
    """Every world that was made since the last time is over: its log folds and decides to the same again.

    Raises:
        BrokenOracleError: it does not, or its last state breaks a promise.
    """
    worlds = list(_open)
    _open.clear()
    for world in worlds:
        world.close()
