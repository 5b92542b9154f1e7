"""Partitioned synchronisation beside full synchronisation at the same period: conflicts, quality, delay."""

import random
from collections import deque

import numpy as np
from msgspec import Struct

from gangline_core.parsync import Master, Preference, Scheduler

SLOTS = 2_000
SCHEDULERS = 12
PARTITIONS = 8
"""A period has as many turns."""
TURNS = 200
TASKS_PER_TURN = 4
"""New tasks of each scheduler."""
TURNS_HELD = (20, 50)
QUALITIES = 20
DELAY_LIMIT = 1


class Result(Struct, frozen=True):
    """One simulation."""

    conflict_percent: float
    quality: float
    """Mean quality of the slots that were taken, in per cent of the best."""
    delay: float
    """Mean turns between arrival and commit."""


def simulate(preference: Preference, *, partitioned: bool, seed: int = 1) -> Result:
    """Equal load whoever synchronises how; all chance comes from the seed."""
    chance = random.Random(seed)
    master = Master(SLOTS, PARTITIONS)
    quality = np.array([chance.randrange(QUALITIES) for _ in range(SLOTS)], dtype=np.int64)
    schedulers = [Scheduler(k, master, preference, delay_limit=DELAY_LIMIT) for k in range(SCHEDULERS)]
    queues: list[deque[int]] = [deque() for _ in schedulers]
    ends: dict[int, list[int]] = {}
    tried = refused = taken = worth = delay = 0
    for turn in range(1, TURNS + 1):
        master.release(ends.pop(turn, []))
        wanted = []
        for scheduler, queue in zip(schedulers, queues, strict=True):
            queue.extend([turn] * TASKS_PER_TURN)
            if partitioned:
                scheduler.refresh(master, [scheduler.turn_of(turn)], turn)
            elif (turn + scheduler.number) % PARTITIONS == 0:
                scheduler.refresh(master, range(PARTITIONS), turn)
            wanted.append(scheduler.choose(quality, len(queue), turn))
        # Commits of all schedulers arrive interleaved, one of each after the other.
        for k in range(max(map(len, wanted))):
            for scheduler, queue, commits in zip(schedulers, queues, wanted, strict=True):
                if k >= len(commits):
                    continue
                tried += 1
                arrived = queue.popleft()
                if not master.commit(commits[k]):
                    refused += 1
                    queue.append(arrived)
                    continue
                taken += 1
                worth += int(quality[commits[k].slot])
                delay += turn - arrived
                scheduler.note_delay(turn - arrived)
                ends.setdefault(turn + chance.randint(*TURNS_HELD), []).append(commits[k].slot)
    return Result(
        conflict_percent=100 * refused / tried,
        quality=100 * worth / taken / (QUALITIES - 1),
        delay=delay / taken,
    )
