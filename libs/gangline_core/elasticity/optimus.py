"""Optimus: its least size for everybody, then each further step goes where it takes most off the time that is left.

Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys 2018, section 4.1.
There the work that is left is foretold by a curve fitted to the loss, and the speed by a model of parameter servers.
Here a job says itself what is left (`remaining_s`), which is Optimus with an oracle as the artefact of Pollux (OSDI
2021) compares itself with, or its estimate does; and its speed at other sizes is that of the throughput model fitted to
its step times, drawn through those that it told, while all members together keep the same batch. What a change costs is
not weighed, as in the paper.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.elasticity.goodput import Floats, Limits, Perf, grad_time, step_time
from gangline_core.elasticity.pollux import bidder_of, common_width, free_gpus
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.elasticity.worth import left_s
from gangline_core.sizes.progress import Point

Ints = NDArray[np.int64]


class Taker(Struct, frozen=True):
    """One job as the search sees it."""

    sizes: tuple[int, ...]
    """Sizes it may have, ascending, in members."""
    gpus: int
    """GPUs of one member."""
    left_ms: tuple[int, ...]
    """How long it would still take at each of these sizes."""

    def step(self, place: int) -> int:
        """GPUs that the next size takes more."""
        return (self.sizes[place + 1] - self.sizes[place]) * self.gpus

    def gain(self, place: int) -> int:
        """Time that each GPU of the next step takes off; 0 where there is none, or none is won."""
        if place + 1 >= len(self.sizes):
            return 0
        return max(0, (self.left_ms[place] - self.left_ms[place + 1]) // self.step(place))


def shares(takers: Sequence[Taker], *, capacity: int) -> list[int]:
    """The size of each job within so many GPUs; 0 for those whose least does not fit. Of equal gains the first wins."""
    places = [-1] * len(takers)
    for number, taker in enumerate(takers):
        least = taker.sizes[0] * taker.gpus
        if least <= capacity:
            places[number], capacity = 0, capacity - least
    steps = [(-takers[number].gain(0), number) for number, place in enumerate(places) if place == 0]
    heapify(steps)
    while steps:
        gain, number = heappop(steps)
        taker, place = takers[number], places[number]
        if gain == 0 or taker.step(place) > capacity:
            continue
        capacity -= taker.step(place)
        places[number] = place + 1
        heappush(steps, (-taker.gain(place + 1), number))
    return [taker.sizes[place] if place >= 0 else 0 for taker, place in zip(takers, places, strict=True)]


def optimus(view: View) -> list[Target]:
    """The pool's jobs that use whole GPUs, weighed together each `elastic_interval_s` if anything happened outside."""
    jobs = [one for one in view.jobs if one.role.resources.whole_gpus]
    if not jobs or not view.may_weigh:
        return []
    per_node = common_width(view)
    held = sum(one.size * one.role.resources.whole_gpus for one in jobs)
    takers = [taker_of(one, view.now, per_node=per_node) for one in jobs]
    chosen = shares(takers, capacity=held + free_gpus(view, jobs))
    return [
        Target(job=one.job, role=one.role.name, size=size, why="marginal gain")
        for one, size in zip(jobs, chosen, strict=True)
        if size and size != one.size
    ]


def taker_of(one: Elastic, now: int, *, per_node: int) -> Taker:
    """A running job as the search sees it: what is left by its own word, carried over to other sizes by its speed."""
    bidder = bidder_of(one, now)
    members = np.array([*bidder.sizes, max(1, bidder.left_at or one.size)])
    if bidder.perf is None:
        took_s = 1 / members
    else:
        seen = seen_s(points_of(one), bidder.gpus, per_node)
        known = np.array([*members, *seen])
        fit_s = update_s(bidder.perf, bidder.limits, -(-known * bidder.gpus // per_node), known)
        took_s = fit_s[: len(members)]
        if seen:
            took_s = took_s * np.interp(members, list(seen), np.array([*seen.values()]) / fit_s[len(members) :])
        # What it says is left goes by where it stood when it said so, far apart or not.
        took_s[-1] = points_of(one)[-1].step_us / 1e6
    left_ms = 1000 * left_s(one, now) * took_s[:-1] / took_s[-1]
    return Taker(sizes=bidder.sizes, gpus=bidder.gpus, left_ms=tuple(round(ms) for ms in left_ms.tolist()))


def points_of(one: Elastic) -> tuple[Point, ...]:
    """The step times that a job told, the last at the end."""
    return one.progress.points if one.progress is not None else ()


def seen_s(points: Sequence[Point], gpus: int, per_node: int) -> dict[int, float]:
    """Seconds of an update by members, as the job told them of standing as close together as can be."""
    close = (point for point in points if point.nodes == -(-point.members * gpus // per_node))
    return dict(sorted((point.members, point.step_us / 1e6) for point in close))


def update_s(perf: Perf, limits: Limits, nodes: Ints, members: Ints) -> Floats:
    """Seconds of one update of the whole batch on so many members, in as many steps as their memory asks for."""
    share = -(-limits.initial // members)
    gathered = np.zeros_like(share)
    if limits.accumulates and limits.local_max:
        gathered = -(-share // limits.local_max) - 1
    own = -(-share // (gathered + 1))
    return np.asarray(gathered * grad_time(perf, own) + step_time(perf, nodes, members, own))
