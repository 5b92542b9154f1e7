"""Seats for a gang that would break a limit of one GPU model: elsewhere what is too much, or nothing of that model.

A job that names several models or none learns only with its seats what it counts. Where they break a model's limit, the
model is not lost: as much of it as the limit still allows stays open, once for the largest tasks first and once for the
smallest, and the gang is seated again with the rest closed. Only where that fails it is tried without the model.
"""

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from gangline_core.cluster import model_of
from gangline_core.facts import TaskPlacement
from gangline_core.job import Job
from gangline_core.limits.quota import Ledger
from gangline_core.limits.rungs import MODEL_PREFIX, lowered
from gangline_core.placement.gang import Gang, Seats
from gangline_core.room.capacity import Room
from gangline_core.state import State


def broken_models(ledger: Ledger, job: Job, amounts: Mapping[str, int]) -> dict[str, int]:
    """Models whose limits these amounts would break, and how many GPU thousandths each still allows the job."""
    wanted, left = lowered(amounts), ledger.room(ledger.rungs(job))
    models = [name for name in wanted if name.startswith(MODEL_PREFIX) and wanted[name] > left.get(name, wanted[name])]
    return {name.removeprefix(MODEL_PREFIX): max(0, left[name]) for name in models}


def with_less(state: State, room: Room, seats: Seats, allowed: Mapping[str, int], *, largest_first: bool) -> Room:
    """The room in which of these models no more is open than is allowed: where some tasks of the seats are now."""
    own, layout = room.copy(), room.layout
    numbers = [number for number, kind in enumerate(layout.kinds) if kind.model in allowed]
    own.milli[np.isin(layout.kind, numbers)] = 0
    left = dict(allowed)
    for task in sorted(seats.tasks, key=lambda task: -_milli(task) if largest_first else _milli(task)):
        model = model_on(state, task)
        if model in left and (milli := _milli(task)) <= left[model]:
            left[model] -= milli
            for share in task.gpus:
                own.milli[layout.row[task.node], share.index] += share.milli
    own.count_all()
    return own


def without_used(state: State, room: Room, gang: Gang, seats: Seats) -> Gang | None:
    """The gang without the models it was just seated on; None when a role has no other."""
    used = {model_on(state, task) for task in seats.tasks if task.gpus}
    needs = []
    for need in gang.needs:
        models = tuple(model for model in need.models or tuple(room.layout.by_number) if model not in used)
        if need.wants_gpu and not models:
            return None
        needs.append(replace(need, models=models) if need.wants_gpu else need)
    return replace(gang, needs=tuple(needs))


def may_mix(gang: Gang, allowed: Mapping[str, int]) -> bool:
    """True when some tasks of the gang could stay on these models and the others go elsewhere."""
    if gang.same_model or any(need.mig for need in gang.needs):
        return False
    return gang.tasks > 1 and any(allowed.values())


def model_on(state: State, task: TaskPlacement) -> str:
    """The GPU model that a task is placed on, in lower case; empty without GPUs."""
    return model_of(state.kept.nodes[task.node], task.gpus[0].index).lower() if task.gpus else ""


def _milli(task: TaskPlacement) -> int:
    return sum(share.milli for share in task.gpus)
