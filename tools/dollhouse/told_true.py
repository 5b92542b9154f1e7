"""Whether it is true what a round tells those who wait: no room, or no room below a limit.

A plain search puts the members of a refused gang one after the other on the first node that has room, beside all who
work or stand still, all for whom room is cleared, and all that have a date. Where everybody found a place there was
one. It asks no deciding code, and looks only at what it understands: gangs without a level, whole GPUs of one model.
"""

from collections import Counter
from collections.abc import Iterator

from gangline_core import facts as f
from gangline_core.cluster import Node
from gangline_core.fold import Message
from gangline_core.groups import holders, user_key
from gangline_core.job import Job, JobState
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.capacity import Holding
from gangline_core.spec import GPU_MILLI, Resources
from gangline_core.state import State
from gangline_core.step import Step

NO_ROOM = frozenset(
    {
        ReasonCode.INSUFFICIENT_GPUS,
        ReasonCode.FRAGMENTED_GPUS,
        ReasonCode.INSUFFICIENT_GPU_MEMORY,
        ReasonCode.INSUFFICIENT_CPU,
        ReasonCode.INSUFFICIENT_MEMORY,
        ReasonCode.SHAPE,
        ReasonCode.NO_ELIGIBLE_NODE,
    }
)
NO_LIMIT = frozenset({ReasonCode.GROUP_LIMIT, ReasonCode.USER_LIMIT})


class Free:
    """What is free on one node for those who need whole GPUs."""

    def __init__(self, state: State, node: Node) -> None:
        """Beside all who hold something there, or stand still there and may go on."""
        use = state.use[node.id]
        there = {share.index for name in use.tasks for share in state.kept.tasks[name].gpus}
        self.cpu_milli = node.cpu_milli - use.cpu_milli
        self.memory_mib = node.memory_mib - use.memory_mib
        self.gpus = {
            gpu.index: gpu.model for gpu in node.gpus if gpu.healthy and not gpu.mig and gpu.index not in there
        }

    def take(self, holding: Holding) -> None:
        """Somebody will hold this."""
        self.cpu_milli -= holding.cpu_milli
        self.memory_mib -= holding.memory_mib
        for share in holding.gpus:
            self.gpus.pop(share.index, None)

    def seats(self, needs: Resources, model: str) -> bool:
        """True when one more task has a place, which is then its own."""
        own = [index for index, name in self.gpus.items() if name == model][: needs.whole_gpus]
        if len(own) < needs.whole_gpus or self.cpu_milli < needs.cpu_milli or self.memory_mib < needs.memory_mib:
            return False
        self.cpu_milli -= needs.cpu_milli
        self.memory_mib -= needs.memory_mib
        for index in own:
            del self.gpus[index]
        return True


class ToldTrue:
    """Looks at every refusal of rounds between whose opening and decision nothing happened."""

    def __init__(self) -> None:
        """Nothing was told."""
        self.met: Counter[str] = Counter()

    def faults(self, state: State, message: Message, step: Step) -> Iterator[str]:
        """What this message tells that is not so; `state` is what it is now."""
        # Where nobody says what was seen, it was all that came before.
        if message.seen not in (-1, message.seq - 1) or step.voided:
            return
        for fact in message.facts:
            if isinstance(fact, f.RoundDecided):
                yield from self._untrue(state, fact)

    def _untrue(self, state: State, decided: f.RoundDecided) -> Iterator[str]:
        for refusal in decided.refusals:
            jobs = (state.kept.jobs.get(job) for job in refusal.jobs)
            waiting = [job for job in jobs if job is not None and job.state == JobState.WAITING]
            for job in waiting:
                if refusal.reason.code in NO_ROOM and is_plain(job):
                    self.met["is told that there is no room"] += 1
                    found = next((model for model in models(state) if has_seats(state, job, model)), None)
                    if found is not None:
                        yield f"job {job.id} is told {refusal.reason} and has room on GPUs of model {found}"
                elif refusal.reason.code in NO_LIMIT:
                    self.met["is told that a limit keeps it out"] += 1
                    yield from _below_limit(state, job, refusal.reason)


def is_plain(job: Job) -> bool:
    """True for a gang that the plain search understands."""
    spec = job.spec
    is_bound = spec.topology.required or spec.exclude_nodes or spec.pinned_cell or spec.node_selector
    return not is_bound and not any(
        role.resources.is_gpu_share or role.resources.beside or role.resources.devices or role.resources.gpu_models
        for role in spec.roles
    )


def models(state: State) -> list[str]:
    """All models of GPUs there are."""
    return sorted({gpu.model for node in state.kept.nodes.values() for gpu in node.gpus})


def has_seats(state: State, job: Job, model: str) -> bool:
    """True when a plain search finds places for the job at its smallest on GPUs of this model."""
    pool = state.kept.pools[job.spec.pool]
    nodes = [node for node in state.kept.nodes.values() if node.pool == job.spec.pool and node.takes_work]
    free = {node.id: Free(state, node) for node in nodes if not node.taints}
    claimed = [place for claim in state.kept.claims.values() for place in claim.placement.tasks]
    dated = [place for reservation in pool.reservations for place in reservation.tasks]
    for place in (*claimed, *dated):
        if place.node in free:
            free[place.node].take(place)
    needed = sorted(
        (role.resources for role in job.spec.roles for _ in range(role.min_count)), key=lambda one: -one.whole_gpus
    )
    return all(any(one.seats(needs, model) for one in free.values()) for needs in needed)


def _below_limit(state: State, job: Job, reason: Reason) -> Iterator[str]:
    """Whoever is told that a limit keeps it out would be beyond it with what it takes at its smallest."""
    numbers = reason.numbers
    if numbers.get("dimension") != "GPUs":
        return
    holder = str(numbers["group"]) if reason.code == ReasonCode.GROUP_LIMIT else user_key(job.spec.group, job.spec.user)
    limit = _gpus(numbers["limit"])
    used = state.usage.get(holder, {}).get("gpu_milli", 0)
    # Others have the first right to what is being cleared for them: who has a claim, or stands still.
    before = {*state.kept.claims, *(one for paused in state.paused.values() for one in paused)} - {job.id}
    for known in (state.kept.jobs[name] for name in before if name in state.kept.jobs):
        if holder in holders(known.spec.group, known.spec.user):
            used += max(_least(known), _stands_still_with(state, known))
    if used + _least(job) <= limit:
        yield f"job {job.id} is told {reason} and {holder} uses {used} of {limit}, it asks for {_least(job)}"


def _least(job: Job) -> int:
    return sum(role.min_count * role.resources.gpu_milli for role in job.spec.roles)


def _stands_still_with(state: State, job: Job) -> int:
    """What a paused job gave up, and takes when it goes on."""
    gone = (task.working for task in state.tasks_of(job))
    return sum(share.milli for working in gone if working is not None for share in working.gpus)


def _gpus(number: int | str) -> int:
    return round(float(number) * GPU_MILLI)
