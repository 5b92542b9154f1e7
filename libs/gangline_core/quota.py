"""Who may use how much right now: one decision's view of limits and guarantees along the group tree.

Amounts are dictionaries from dimension to integer (see `gangline_core.groups`). GPU models are compared without regard
to case. A dimension that a job asks nothing of is never the reason to refuse it.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from gangline_core.groups import Group, User, ancestors, user_key
from gangline_core.job import Job, Task, TaskState
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.spec import GPU_MILLI, JobSpec, Role, ServiceClass, smallest_size
from gangline_core.state import State, count, task_amounts

JOBS = "jobs"
"""The dimension that counts running jobs."""
MODEL_PREFIX = "gpu_milli:"
"""How the dimension of one GPU model begins."""

_LABELS = {"gpu_milli": ("GPUs", GPU_MILLI), "cpu_milli": ("CPUs", 1000), "memory_mib": ("MiB of memory", 1)}


class Rung(Struct, frozen=True):
    """One holder on a job's way from its user up to the root, and what it may use."""

    holder: str
    """Group path or user_key: the name under which usage is kept."""
    group: str
    user: str
    """Empty for a group."""
    limit: dict[str, int]


class Ledger:
    """Usage as it stands plus what this decision has taken and given back so far."""

    def __init__(self, state: State) -> None:
        """The usage of the frozen state; nothing is copied before it is changed."""
        self._state = state
        self._changes: dict[str, dict[str, int]] = {}
        self._class_changes: dict[tuple[str, ServiceClass], dict[str, int]] = {}
        self._group_rungs: dict[str, tuple[Rung, ...]] = {}
        self._guarantees: dict[str, dict[str, int]] = {}
        self._by_class: dict[tuple[str, ServiceClass], dict[str, int]] | None = None

    # --- limits -----------------------------------------------------------------------------------------

    def fault(self, job: Job, amounts: Mapping[str, int]) -> Reason | None:
        """The nearest limit that taking these amounts would break, as a reason with its numbers; None when none."""
        return next(self.faults(job, amounts), None)

    def faults(self, job: Job, amounts: Mapping[str, int]) -> Iterator[Reason]:
        """Every limit that taking these amounts would break, nearest first: the user, the group, its ancestors."""
        for rung, dimension, used, needed in self.broken(job, amounts):
            yield _limit_reason(rung, dimension, used=used, needed=needed)

    def broken(self, job: Job, amounts: Mapping[str, int]) -> Iterator[tuple[Rung, str, int, int]]:
        """The same as (rung, dimension, used, needed)."""
        wanted = _folded(amounts)
        for rung in self.rungs(job):
            for dimension, limit in rung.limit.items():
                needed = wanted.get(dimension, 0)
                if needed > 0 and (used := self.used(rung.holder, dimension)) + needed > limit:
                    yield rung, dimension, used, needed

    def take(self, job: Job, amounts: Mapping[str, int]) -> None:
        """Count these amounts as used by the job from now on."""
        self._change(job, amounts, 1)

    def give(self, job: Job, amounts: Mapping[str, int]) -> None:
        """Count these amounts as given back by the job."""
        self._change(job, amounts, -1)

    def used(self, holder: str, dimension: str) -> int:
        """What a group or user uses of a dimension, this decision included."""
        return self._booked(holder, dimension) + self._changes.get(holder, {}).get(dimension, 0)

    def rungs(self, job: Job) -> tuple[Rung, ...]:
        """The holders with limits on the job's way up, nearest first."""
        own = user_rung(self._state, group=job.spec.group, user=job.spec.user)
        above = self.group_rungs(job.spec.group)
        return (own, *above) if own else above

    def group_rungs(self, group: str) -> tuple[Rung, ...]:
        """The groups with limits from this one up to the root, nearest first."""
        found = self._group_rungs.get(group)
        if found is None:
            found = self._group_rungs[group] = tuple(group_rungs(self._state, group))
        return found

    def room(self, rungs: Iterable[Rung]) -> dict[str, int]:
        """What is left of each dimension these rungs limit; negative where a limit was cut below use."""
        room: dict[str, int] = {}
        for rung in rungs:
            for dimension, limit in rung.limit.items():
                left = limit - self.used(rung.holder, dimension)
                room[dimension] = min(left, room.get(dimension, left))
        return room

    # --- guarantees -------------------------------------------------------------------------------------

    def within_guarantee(self, job: Job, amounts: Mapping[str, int]) -> bool:
        """True when usage and request together fit what the job's group is guaranteed, in every dimension promised.

        For each dimension the nearest group above that is guaranteed some of it decides. Those further up promised
        their children no more than they have themselves, so what a sibling uses beyond its own part is borrowed and
        takes nothing away. Only dimensions that a guarantee names are compared, at least one of them must be asked
        for, and opportunistic work neither has a guarantee nor uses one up.
        """
        if job.spec.service_class == ServiceClass.OPPORTUNISTIC:
            return False
        decided: set[str] = set()
        wanted = _folded(amounts)
        for path in ancestors(job.spec.group):
            for dimension, promised in self._guarantee(path).items():
                if wanted.get(dimension, 0) > 0 and dimension not in decided:
                    decided.add(dimension)
                    if self._firm(path, dimension) + wanted[dimension] > promised:
                        return False
        return bool(decided)

    def over_guarantee(self, group: str, amounts_removed: Mapping[str, int], *, beneficiary: str | None = None) -> bool:
        """True when the group and those above it keep at least their guarantee after giving these amounts up.

        Groups that also hold the beneficiary's group are not asked: what one part of them gives, another gets.
        """
        removed = {dimension.lower(): amount for dimension, amount in amounts_removed.items() if amount > 0}
        shared = set() if beneficiary is None else set(ancestors(beneficiary))
        return all(
            self._firm(path, dimension) - removed[dimension] >= promised
            for path in ancestors(group)
            if path not in shared
            for dimension, promised in self._guarantee(path).items()
            if dimension in removed
        )

    def borrowed(self, group: str, dimension: str) -> int:
        """How much of a dimension a group uses beyond its own guarantee."""
        promised = self._guarantee(group).get(dimension, 0)
        return max(0, self.used(group, dimension) - promised)

    def is_sheltered(self, job: Job) -> bool:
        """True when the job is of class guaranteed and all such jobs of its group fit the group's guarantee."""
        if job.spec.service_class != ServiceClass.GUARANTEED:
            return False
        promised = self._guarantee(job.spec.group)
        return bool(promised) and all(
            self._of_class(job.spec.group, ServiceClass.GUARANTEED, dimension) <= amount
            for dimension, amount in promised.items()
        )

    # --- inside -----------------------------------------------------------------------------------------

    def _guarantee(self, path: str) -> dict[str, int]:
        found = self._guarantees.get(path)
        if found is None:
            group = self._state.kept.groups.get(path)
            found = self._guarantees[path] = _folded(group.guaranteed) if group else {}
        return found

    def _firm(self, holder: str, dimension: str) -> int:
        """What a holder uses of a dimension, opportunistic work left out."""
        return self.used(holder, dimension) - self._of_class(holder, ServiceClass.OPPORTUNISTIC, dimension)

    def _booked(self, holder: str, dimension: str) -> int:
        if dimension == JOBS:
            return self._state.running.get(holder, 0)
        return _amount(self._state.usage.get(holder, {}), dimension)

    def _of_class(self, holder: str, service_class: ServiceClass, dimension: str) -> int:
        if self._by_class is None:
            self._by_class = _usage_by_class(self._state)
        key = (holder, service_class)
        return self._by_class.get(key, {}).get(dimension, 0) + self._class_changes.get(key, {}).get(dimension, 0)

    def _change(self, job: Job, amounts: Mapping[str, int], sign: int) -> None:
        for holder in holders(job.spec.group, job.spec.user):
            changes = self._changes.setdefault(holder, {})
            of_class = self._class_changes.setdefault((holder, job.spec.service_class), {})
            for dimension, amount in amounts.items():
                count(changes, dimension.lower(), sign * amount)
                count(of_class, dimension.lower(), sign * amount)


def holders(group: str, user: str) -> tuple[str, ...]:
    """Under which names a user's use is kept, nearest first: the user, the group, its ancestors."""
    return (user_key(group, user), *ancestors(group))


def user_rung(state: State, *, group: str, user: str) -> Rung | None:
    """A user's own limits; None when there are none."""
    holder = user_key(group, user)
    own = user_limit(state.kept.groups.get(group), state.kept.users.get(holder))
    return Rung(holder=holder, group=group, user=user, limit=_folded(own)) if own else None


def group_rungs(state: State, group: str) -> Iterator[Rung]:
    """The groups with limits from this one up to the root, nearest first."""
    for path in ancestors(group):
        known = state.kept.groups.get(path)
        if known is not None and known.limit:
            yield Rung(holder=path, group=path, user="", limit=_folded(known.limit))


def user_limit(group: Group | None, user: User | None) -> dict[str, int]:
    """A user's limit: the user's own, and the group's limit for each user where the own one is silent."""
    if user is None or not user.limit:
        return group.user_limit if group else {}
    return {**group.user_limit, **user.limit} if group else user.limit


def job_amounts(spec: JobSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """What a job of these sizes (tasks per role, its count where silent) asks for before it is placed, no zeros."""
    amounts: dict[str, int] = {JOBS: 1}
    for role in spec.roles:
        tasks, need = sizes.get(role.name, role.count), role.resources
        # By memory alone the true share is known only with the card; one thousandth lets a full limit refuse it.
        gpu_milli = tasks * (need.gpu_milli or (1 if need.gpu_memory_mib else 0))
        if gpu_milli:
            amounts["gpu_milli"] = amounts.get("gpu_milli", 0) + gpu_milli
            if len(need.gpu_models) == 1:
                count(amounts, f"{MODEL_PREFIX}{need.gpu_models[0].lower()}", gpu_milli)
        if need.cpu_milli:
            amounts["cpu_milli"] = amounts.get("cpu_milli", 0) + tasks * need.cpu_milli
        if need.memory_mib:
            amounts["memory_mib"] = amounts.get("memory_mib", 0) + tasks * need.memory_mib
    return amounts


def minimum_sizes(spec: JobSpec) -> dict[str, int]:
    """The smallest sizes with which the gang may start."""
    return {role.name: smallest_size(role) for role in spec.roles}


def largest_size(role: Role) -> int:
    """The most tasks the role may have."""
    return max((size for size in role.sizes if role.allows(size)), default=role.max_count)


def recompute(state: State) -> dict[str, dict[str, int]]:
    """Usage from scratch, from live tasks alone; always equal to `state.usage`, empty holders left out."""
    usage: dict[str, dict[str, int]] = {}
    for task in _counted(state):
        for holder in holders(task.group, task.user):
            amounts = usage.setdefault(holder, {})
            for dimension, amount in task_amounts(task).items():
                count(amounts, dimension, amount)
    return {holder: amounts for holder, amounts in usage.items() if amounts}


def shown(dimension: str, amount: int) -> tuple[str, int | str]:
    """A dimension's name and an amount as a user would say them: ("gpu_milli:a100", 1500) -> ("A100 GPUs", "1.5")."""
    if dimension.startswith(MODEL_PREFIX):
        label, unit = f"{dimension.removeprefix(MODEL_PREFIX).upper()} GPUs", GPU_MILLI
    elif dimension == JOBS:
        label, unit = "running jobs", 1
    else:
        label, unit = _LABELS.get(dimension, (dimension, 1))
    whole, rest = divmod(amount, unit)
    return label, whole if rest == 0 else f"{amount / unit:g}"


def _limit_reason(rung: Rung, dimension: str, *, used: int, needed: int) -> Reason:
    label, limit_shown = shown(dimension, rung.limit[dimension])
    numbers: dict[str, int | str] = {
        "group": rung.group or "(all)",
        "dimension": label,
        "used": shown(dimension, used)[1],
        "limit": limit_shown,
        "needed": shown(dimension, needed)[1],
    }
    if rung.user:
        return Reason(ReasonCode.USER_LIMIT, {"user": rung.user, **numbers})
    return Reason(ReasonCode.GROUP_LIMIT, numbers)


def _counted(state: State) -> Iterator[Task]:
    """Live tasks that count: those of a lost node keep its room but not their group's."""
    return (task for task in state.kept.tasks.values() if task.state != TaskState.LOST)


def _usage_by_class(state: State) -> dict[tuple[str, ServiceClass], dict[str, int]]:
    """Use by holder and service class, for the classes that guarantees treat specially."""
    usage: dict[tuple[str, ServiceClass], dict[str, int]] = {}
    for task in _counted(state):
        service_class = state.kept.jobs[task.job].spec.service_class
        if service_class == ServiceClass.BURSTABLE:
            continue
        for holder in holders(task.group, task.user):
            amounts = usage.setdefault((holder, service_class), {})
            for dimension, amount in task_amounts(task).items():
                count(amounts, dimension.lower(), amount)
    return usage


def _amount(usage: Mapping[str, int], dimension: str) -> int:
    if dimension.startswith(MODEL_PREFIX):
        return sum(amount for name, amount in usage.items() if name.lower() == dimension)
    return usage.get(dimension, 0)


def _folded(amounts: Mapping[str, int]) -> dict[str, int]:
    """The same amounts with model names in lower case."""
    return {dimension.lower(): amount for dimension, amount in amounts.items()}
