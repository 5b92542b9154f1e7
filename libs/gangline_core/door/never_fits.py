"""Can the pool's machines ever hold this job, were they empty and well? If not, which number is too large?

Only what is certain is refused: a job is judged at its smallest sizes, labels and taints may change, and a pool without
machines may still get some. Whether today's free room suffices is the round's question, not this one's.
"""

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gangline_core.cluster import Pool
from gangline_core.door.never_fits_gang import gang_verdict
from gangline_core.door.never_fits_shape import domains, shape_verdict
from gangline_core.limits.dimension_names import shown
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.inventory import VERDICTS_MAX, GpuKind, Inventory, MachineKind, Stock, suitable_gpus, tasks_held
from gangline_core.spec import GPU_MILLI, JobSpec, Resources, Role, common_selector, selector_of, smallest_size

Verdict = tuple[Reason, str] | None
"""The reason and the path of the field whose number is too large; None when the job may fit some day."""


def never_fits(inventory: Inventory, pool: Pool, spec: JobSpec) -> Verdict:
    """Why the pool's machines can never hold the job; None when they may."""
    if not inventory.nodes or pool.grows:
        return None
    roles = [(role.name, smallest_size(role), role.resources, role.node_selector) for role in spec.roles]
    where = (spec.node_selector, spec.exclude_nodes, spec.same_model, spec.topology)
    key = msgspec.json.encode((roles, where, pool.topology), order="deterministic")
    if key not in inventory.verdicts:
        if len(inventory.verdicts) >= VERDICTS_MAX:
            inventory.verdicts.clear()
        inventory.verdicts[key] = _judge(inventory, pool, spec)
    return inventory.verdicts[key]


def _judge(inventory: Inventory, pool: Pool, spec: JobSpec) -> Verdict:
    if spec.exclude_nodes:
        excluded = set(spec.exclude_nodes)
        inventory = Inventory((n for n in inventory.nodes if n.id not in excluded), inventory.tasks_max)
    stocks = inventory.matching(common_selector(spec))
    if not stocks:
        return None
    # Where no machine has the labels that a role asks for, one may get them yet.
    may_come = False
    for index, role in enumerate(spec.roles):
        own = inventory.matching(selector_of(spec, role))
        may_come = may_come or not own
        verdict = _role_verdict(own, role, index) if own else None
        if verdict is not None:
            return verdict
    return (
        _sum_verdict(stocks, spec)
        or _topology_verdict(inventory, pool, spec)
        or shape_verdict(inventory, pool, spec, _holds_gang)
        or (gang_verdict(inventory, pool, spec) if _is_hard(spec) and not may_come else None)
    )


def _is_hard(spec: JobSpec) -> bool:
    """True when sums may be enough although no way to place all tasks exists."""
    wish = spec.topology
    several = sum(smallest_size(role) > 0 for role in spec.roles) > 1
    return several or spec.same_model or bool(wish.slice_tasks or wish.spread_level)


# --- one role -----------------------------------------------------------------------------------------------


def _role_verdict(stocks: Sequence[Stock], role: Role, index: int) -> Verdict:
    need, tasks = role.resources, smallest_size(role)
    if tasks == 0:
        return None
    places = sum(stock.count * tasks_held(stock.kind, need) for stock in stocks)
    if places >= tasks:
        return None
    at = f"roles[{index}]"
    return _model_verdict(stocks, need, tasks, at) or _task_verdict(stocks, need, at) or _places(role, places, at)


def _model_verdict(stocks: Sequence[Stock], need: Resources, tasks: int, at: str) -> Verdict:
    """Too few GPUs of the models asked for, whatever else."""
    if not need.gpu_models or not need.wants_gpu:
        return None
    models = Resources(gpu_models=need.gpu_models, exclude_models=need.exclude_models, mig=need.mig)
    present = sum(stock.count * len(suitable_gpus(stock.kind, models)) for stock in stocks)
    needed = tasks * need.gpu_milli
    if present and needed <= present * GPU_MILLI:
        return None
    numbers: dict[str, int | str] = {
        "needed": shown("gpu_milli", needed)[1] if needed else "some",
        "model": " or ".join(need.gpu_models),
        "largest": present,
    }
    if not present and (near := _near_models(stocks, need.gpu_models)):
        numbers["near"] = near
    return Reason(ReasonCode.NEVER_FITS_MODEL, numbers), f"{at}.gpu_models"


def _near_models(stocks: Sequence[Stock], asked: Sequence[str]) -> str:
    """Models of these machines that are spelled much like those that were asked for."""
    known = sorted({gpu.model for stock in stocks for gpu in stock.kind.gpus if gpu.model})
    near = [found for name in asked for found in get_close_matches(name.casefold(), known, n=1)]
    return " or ".join(dict.fromkeys(near))


def _task_verdict(stocks: Sequence[Stock], need: Resources, at: str) -> Verdict:
    """One task alone is too large for every machine: which of its numbers is it?"""
    if any(tasks_held(stock.kind, need) for stock in stocks):
        return None
    kinds = [stock.kind for stock in stocks]
    for measure in _measures(need):
        largest = max(measure.has(kind) for kind in kinds)
        if measure.needed > largest:
            reason = _too_large(ReasonCode.NEVER_FITS_NODE, measure.dimension, measure.needed, largest)
            most = max(len(kind.gpus) for kind in kinds) * GPU_MILLI
            if measure.dimension == "gpu_milli" and largest < most:
                # A node may have more of them in all, of several models.
                told = f"{reason.numbers['largest']} of one model"
                reason = replace(reason, numbers={**reason.numbers, "largest": told})
            return reason, f"{at}.{measure.field}"
    # Every number alone is found somewhere, but not all of them on one machine: narrow the machines down by each.
    for measure in _measures(need):
        largest = max(measure.has(kind) for kind in kinds)
        if measure.needed > largest:
            label, needed = shown(measure.dimension, measure.needed)
            numbers: dict[str, int | str] = {
                "needed": needed,
                "dimension": f"{label} beside the rest of what it asks for",
                "largest": shown(measure.dimension, largest)[1],
            }
            return Reason(ReasonCode.NEVER_FITS_NODE, numbers), f"{at}.{measure.field}"
        kinds = [kind for kind in kinds if measure.has(kind) >= measure.needed]
    return None


class _Measure(NamedTuple):
    """One number of a task, and how much of it a machine has."""

    field: str
    dimension: str
    needed: int
    has: Callable[[MachineKind], int]


def _measures(need: Resources) -> Iterator[_Measure]:
    of_models = Resources(gpu_models=need.gpu_models, exclude_models=need.exclude_models, mig=need.mig)
    beside_nic = replace(of_models, near_nic=need.near_nic)
    if need.mig:
        slices = replace(need, cpu_milli=0, memory_mib=0, devices={})
        yield _Measure("mig", f"{need.mig} slice", 1, lambda kind: int(bool(tasks_held(kind, slices))))
    elif need.wants_gpu:
        yield _Measure(
            "gpus",
            "gpu_milli",
            need.gpu_milli,
            lambda kind: _most_equal(suitable_gpus(kind, of_models)) * GPU_MILLI,
        )
        yield _Measure(
            "gpu_memory",
            "MiB of memory on one GPU",
            need.gpu_memory_mib,
            lambda kind: max((gpu.memory_mib for gpu in suitable_gpus(kind, of_models)), default=0),
        )
        if need.near_nic:
            wanted = max(1, need.whole_gpus)
            field = "GPUs beside a network card"
            yield _Measure("near_nic", field, wanted, lambda kind: _most_equal(suitable_gpus(kind, beside_nic)))
        yield _Measure(
            "gpus", "GPUs with so much memory", need.whole_gpus, lambda kind: _most_equal(suitable_gpus(kind, need))
        )
    yield _Measure("memory", "memory_mib", need.memory_mib, lambda kind: kind.memory_mib)
    for name, count in sorted(need.devices.items()):
        yield _Measure(f"devices.{name}", name, count, partial(_devices, name))
    yield _Measure("cpus", "cpu_milli", need.cpu_milli, lambda kind: kind.cpu_milli)


def _devices(name: str, kind: MachineKind) -> int:
    return dict(kind.devices).get(name, 0)


def _most_equal(gpus: Sequence[GpuKind]) -> int:
    """How many GPUs of one model there are at most: a task's GPUs are of one model."""
    return max((sum(other.model == gpu.model for other in gpus) for gpu in gpus), default=0)


def _places(role: Role, places: int, at: str) -> Verdict:
    """Single tasks fit, but not so many at once."""
    need = role.resources
    gpus = shown("gpu_milli", need.gpu_milli)[1]
    what = f" of {gpus} GPU{'' if need.gpu_milli == GPU_MILLI else 's'}" if need.gpu_milli else ""
    numbers: dict[str, int | str] = {
        "needed": smallest_size(role),
        "dimension": f"places for tasks{what} (role {role.name})",
        "largest": places,
    }
    return Reason(ReasonCode.NEVER_FITS_CLUSTER, numbers), f"{at}.tasks"


# --- the whole gang -----------------------------------------------------------------------------------------


def _sum_verdict(stocks: Sequence[Stock], spec: JobSpec) -> Verdict:
    """All roles together ask for more than all machines have."""
    needs = [role.resources for role in spec.roles if role.resources.gpu_milli and not role.resources.mig]
    totals = {
        "gpu_milli": sum(stock.count * len(_suitable_to_any(stock.kind, needs)) for stock in stocks) * GPU_MILLI,
        "cpu_milli": sum(stock.count * stock.kind.cpu_milli for stock in stocks),
        "memory_mib": sum(stock.count * stock.kind.memory_mib for stock in stocks),
    }
    for dimension, needed in _gang_amounts(spec).items():
        if needed > totals[dimension]:
            return _too_large(ReasonCode.NEVER_FITS_CLUSTER, dimension, needed, totals[dimension]), "roles"
    return _places_of_all(stocks, spec)


def _places_of_all(stocks: Sequence[Stock], spec: JobSpec) -> Verdict:
    """Each role alone finds its places, but machines that can hold any of them take fewer tasks than all are."""
    tasks = sum(smallest_size(role) for role in spec.roles)
    if len(spec.roles) < 2 or tasks == 0:
        return None
    needs = [role.resources for role in spec.roles]
    places = sum(stock.count * min(stock.kind.tasks, sum(tasks_held(stock.kind, n) for n in needs)) for stock in stocks)
    if places >= tasks:
        return None
    numbers: dict[str, int | str] = {"needed": tasks, "dimension": "places for tasks (all roles)", "largest": places}
    return Reason(ReasonCode.NEVER_FITS_CLUSTER, numbers), "roles"


def _suitable_to_any(kind: MachineKind, needs: Sequence[Resources]) -> set[int]:
    """Places of the GPUs that some of these may use: cards of other models, and cut ones, are no help to anybody."""
    found: set[int] = set()
    for need in needs:
        able = suitable_gpus(kind, need)
        found |= {place for place, gpu in enumerate(kind.gpus) if gpu in able}
    return found


def _topology_verdict(inventory: Inventory, pool: Pool, spec: JobSpec) -> Verdict:
    """The gang must stay inside one domain of a level, and no domain is large enough."""
    level = spec.topology.required
    if not level:
        return None
    found = [stocks for _, stocks in domains(inventory, pool, spec, level) or []]
    if any(_holds_gang(stocks, spec) for stocks in found):
        return None
    largest = max((_gpus_for(stocks, spec) for stocks in found), default=0)
    # Where there are GPUs enough, something else is too little: then it is told how many tasks stand there.
    if largest * GPU_MILLI < _gang_amounts(spec)["gpu_milli"]:
        return _topology_reason(spec, level, largest), "topology.required"
    return gang_verdict(inventory, pool, spec) or (_topology_reason(spec, level, largest), "topology.required")


def _holds_gang(domain: Sequence[Stock], spec: JobSpec) -> bool:
    return _sum_verdict(domain, spec) is None and all(
        sum(stock.count * tasks_held(stock.kind, role.resources) for stock in domain) >= smallest_size(role)
        for role in spec.roles
    )


def _gpus_for(domain: Sequence[Stock], spec: JobSpec) -> int:
    """GPUs of the domain that some role of the job may use."""
    needs = [role.resources for role in spec.roles if role.resources.wants_gpu]
    return sum(stock.count * max((len(suitable_gpus(stock.kind, n)) for n in needs), default=0) for stock in domain)


def _topology_reason(spec: JobSpec, level: str, largest: int) -> Reason:
    needed = shown("gpu_milli", _gang_amounts(spec)["gpu_milli"])[1]
    return Reason(ReasonCode.NEVER_FITS_TOPOLOGY, {"needed": needed, "level": level, "largest": largest})


def _gang_amounts(spec: JobSpec) -> dict[str, int]:
    sizes = [(smallest_size(role), role.resources) for role in spec.roles]
    return {
        "gpu_milli": sum(tasks * need.gpu_milli for tasks, need in sizes if not need.mig),
        "cpu_milli": sum(tasks * need.cpu_milli for tasks, need in sizes),
        "memory_mib": sum(tasks * need.memory_mib for tasks, need in sizes),
    }


def _too_large(code: ReasonCode, dimension: str, needed: int, largest: int) -> Reason:
    label, needed_shown = shown(dimension, needed)
    return Reason(code, {"needed": needed_shown, "dimension": label, "largest": shown(dimension, largest)[1]})
