"""Balance over nodes: of network load alone (BN), or of CPU, memory, disk and network together (CMDN).

Source: the liang extender's two algorithms. Network and disk are countable devices of nodes, `network_mbit` and
`disk_gib`; a task that asks for none of them is a task without network need. Differences from the original, all
faults there: percentages come from equal units, equal rows do not divide by zero, and nodes keep their names.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gangline_core.placement.allocatable import owned
from gangline_core.placement.each import by_keys, each
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.room.capacity import Ints, Room

Floats = NDArray[np.float64]
SCORE_MAX = 100
BUSY_PERCENT = 80
"""A column's value above this counts as none: a node that is nearly full of something."""
NETWORK = "network_mbit"
DISK = "disk_gib"


def balanced_network(room: Room, gang: Gang) -> Seats | None:
    """The node on which the task leaves network load most even over all nodes."""

    def keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
        capacity = _capacity(room, NETWORK)
        return SCORE_MAX - network_scores(need.devices.get(NETWORK, 0), _taken(room, NETWORK), capacity)

    return each(room, gang, by_keys(keys), keys=keys)


def balanced_all(room: Room, gang: Gang) -> Seats | None:
    """The busiest node that is not nearly full, over CPU, memory, disk and network."""

    def keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
        cpu, memory = owned(room)
        columns = np.stack(
            [
                _percent(cpu - room.cpu, cpu),
                _percent(memory - room.memory, memory),
                _percent(_taken(room, DISK), _capacity(room, DISK)),
                _percent(_taken(room, NETWORK), _capacity(room, NETWORK)),
                _capacity(room, NETWORK).astype(np.float64),
            ],
            axis=1,
        )
        return SCORE_MAX - closeness_scores(columns)

    return each(room, gang, by_keys(keys), keys=keys)


def network_scores(need: int, current: Ints, capacity: Ints) -> Ints:
    """0..100 for each node: the evener all loads would be with the task there, the higher."""
    able = (capacity > 0) & (current + need <= capacity)
    scores = np.zeros(len(capacity), dtype=np.int64)
    rows = np.flatnonzero(able)
    if len(rows) == 1:
        scores[rows] = SCORE_MAX
    if len(rows) < 2 or need == 0:
        return scores
    loads = current[rows] / capacity[rows]
    variances = np.empty(len(rows))
    for k in range(len(rows)):
        trial = loads.copy()
        trial[k] = (current[rows[k]] + need) / capacity[rows[k]]
        variances[k] = trial.var()
    low, high = variances.min(), variances.max()
    if high > low:
        scores[rows] = np.trunc(SCORE_MAX - SCORE_MAX * (variances - low) / (high - low)).astype(np.int64)
    return scores


def closeness_scores(columns: Floats) -> Ints:
    """0..100 for each row of (CPU %, memory %, disk %, network %, network capacity): how close it is to the best row.

    Technique for order of preference by similarity to the ideal, with the original's scaling by the sum of squares.
    """
    if len(columns) == 1:
        return np.array([SCORE_MAX], dtype=np.int64)
    scaled = columns.copy()
    scaled[:, :4] = np.where(scaled[:, :4] > BUSY_PERCENT, 0, scaled[:, :4])
    scaled[:, ~scaled.any(axis=0)] = 1
    scaled = scaled / (scaled**2).sum(axis=0)
    to_best = np.sqrt(((scaled - scaled.max(axis=0)) ** 2).sum(axis=1))
    to_worst = np.sqrt(((scaled - scaled.min(axis=0)) ** 2).sum(axis=1))
    total = to_best + to_worst
    part = np.where(total > 0, to_worst / np.where(total > 0, total, 1), 1)
    found: Ints = np.floor(SCORE_MAX * part + 0.5).astype(np.int64)
    return found


def _capacity(room: Room, device: str) -> Ints:
    def work_out() -> Ints:
        return np.array([node.devices.get(device, 0) for node in room.nodes], dtype=np.int64)

    return room.layout.remember(("device", device), work_out)


def _taken(room: Room, device: str) -> Ints:
    free = room.devices.get(device)
    return np.zeros(len(room.cpu), dtype=np.int64) if free is None else _capacity(room, device) - free


def _percent(taken: Ints, capacity: Ints) -> Floats:
    found: Floats = np.floor(100 * taken / np.maximum(capacity, 1) + 0.5).clip(0)
    return found
