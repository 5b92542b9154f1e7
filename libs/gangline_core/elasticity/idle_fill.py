"""Idle fill: jobs grow into GPUs that nobody waits for, where the next GPU speeds them up most.

A job that reported its step times is judged by the throughput model fitted to them; one that did not is taken to gain
from each member alike, so that those furthest below what they wanted come first. A job that would gain less than
GAIN_LEAST_MILLI of a member by its next step stays as it is, and so does one that would lose more by the change than it
could win in the time it has left. Nobody shrinks here: the round does that when somebody waits.
"""

from heapq import heapify, heappop, heappush

from gangline_core.elasticity.room import more
from gangline_core.elasticity.speed import Speed, speed_of
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.elasticity.worth import pays_off
from gangline_core.room.holds import placed_amounts

STEPS_MAX = 512
"""Steps of growth looked at in one proposal."""
GAIN_LEAST_MILLI = 100
"""A member more must bring at least a tenth of what the first one does."""

Key = tuple[bool, int, int, int]


def idle_fill(view: View) -> list[Target]:
    """Share the room out, step by step; always the job with most to gain takes its next step."""
    by_job = {one.job.id: one for one in view.jobs}
    speeds = {one.job.id: speed_of(one) for one in view.jobs}
    sizes = {one.job.id: one.size for one in view.jobs}
    queue = [(_key(one, speeds[one.job.id], one.size), one.job.id) for one in view.jobs if one.above(one.size)]
    heapify(queue)
    for _ in range(STEPS_MAX):
        if not queue:
            break
        _, job_id = heappop(queue)
        one, size = by_job[job_id], sizes[job_id]
        following = one.above(size)
        if following is None or not _gains(one, speeds[job_id], size, following):
            continue
        count, grown = following - size, size - one.size
        tasks = more(view.table, view.table.room, one.job, one.role, count=count, after=grown)
        if tasks is not None:
            view.table.grow(one.job, tasks, placed_amounts(view.state, tasks))
            sizes[job_id] = following
            heappush(queue, (_key(one, speeds[job_id], following), job_id))
    return [
        Target(job=one.job, role=one.role.name, size=sizes[one.job.id], why="idle GPUs")
        for one in view.jobs
        if sizes[one.job.id] > one.size and pays_off(one, speeds[one.job.id], sizes[one.job.id], view.now)
    ]


def _key(one: Elastic, speed: Speed, size: int) -> Key:
    """Sorts those first that should grow first: below what they wanted, then by gain, then by least beyond it."""
    following = one.above(size) or size + 1
    return size >= one.role.count, -speed.gain_milli(size, following), (size - one.role.count) * one.gpu_milli, one.size


def _gains(one: Elastic, speed: Speed, size: int, following: int) -> bool:
    return size < one.role.count or speed.gain_milli(size, following) >= GAIN_LEAST_MILLI
