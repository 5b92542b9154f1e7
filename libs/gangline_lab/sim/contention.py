"""How fast jobs go that use the same resources side by side, each at its own pace.

While a job has its GPUs alone, each stage keeps one resource busy for a part of an iteration: storage and CPU while it
loads, the GPU while it computes, the network while it exchanges. A resource gives no more than all of its time. Where
jobs on the same GPUs ask for more than that of the one that they want most, all of them slow down alike until they do
not: an iteration takes as long as the largest sum of their stages. Nobody is told when to begin, and switching is free.

A guest has of each resource what the owner leaves, and the owner is not slowed down: the guest is held back as far as
that one's steps take longer (AntMan's dynamic scaling).
"""

from collections.abc import Sequence

from gangline_core.job import Job
from gangline_core.pauses.pausing import companions
from gangline_core.sharing.stages import MICRO, Stages, stages_of
from gangline_core.state import State


def contended_permille(state: State, job: Job) -> int | None:
    """What a job has of its speed beside those with whom it shares its GPUs; None without them, or if nobody knows."""
    others = companions(state, job.id) if state.kept.packs else ()
    known = [stages for name in (job.id, *others) if (stages := stages_of(state.kept.jobs[name].spec)) is not None]
    if not others or len(known) <= len(others):
        return None
    packs = state.kept.packs
    if job.id in packs and packs[job.id].is_guest:
        return left_permille(*known)
    return None if any(packs[name].is_guest for name in others if name in packs) else together_permille(known)


def together_permille(company: Sequence[Stages]) -> int:
    """The part of its speed alone that each of these has, in thousandths."""
    asked = max(map(sum, zip(*map(busy_micro, company), strict=True)))
    return 1000 * MICRO // max(MICRO, asked)


def left_permille(guest: Stages, owner: Stages) -> int:
    """The part of its speed alone that a guest has in what the owner leaves, in thousandths; never nothing at all."""
    asked = zip(busy_micro(guest), busy_micro(owner), strict=True)
    return max(1, min([1000, *(1000 * (MICRO - theirs) // mine for mine, theirs in asked if mine)]))


def busy_micro(stages: Stages) -> tuple[int, int, int]:
    """The parts of its time alone for which a job keeps each resource busy, in millionths."""
    parts = (stages.loading_us, stages.compute_us, stages.network_us)
    load, compute, network = (min(MICRO, MICRO * part // stages.iteration_us) for part in parts)
    return load, compute, network
