"""In which order a gang's members count, and how close together they are: ranks follow topology."""

from collections.abc import Sequence

from msgspec.structs import replace

from gangline_core.cluster import LEVELS_INSIDE_NODE
from gangline_core.facts import TaskPlacement
from gangline_core.placement.gang import ANYWHERE, Gang, Seats
from gangline_core.room.capacity import Holding, Layout

CLOSE = LEVELS_INSIDE_NODE[:-1]
"""The levels below the node, closest first."""


def in_rank_order(layout: Layout, gang: Gang, tasks: list[TaskPlacement]) -> Seats:
    """The tasks by role as asked for, and inside a role by place, largest domain first; indexes follow the ranks."""
    if len(tasks) == 1:
        return alone(layout, tasks[0])
    levels = _largest_first(layout, gang)
    labels = dict(gang.levels)
    codes = [layout.domains(labels[level])[0] for level in levels]
    # Slices inside a node must stand side by side, whatever else hangs together.
    inside = [*([gang.slice_level] if gang.slice_level in CLOSE else []), "socket", "nvlink", "switch"]

    parts = [layout.part(level) for level in inside]
    nowhere = [-1] * len(inside)

    def place(task: TaskPlacement) -> tuple[int, ...]:
        row = layout.row[task.node]
        gpu = task.gpus[0].index if task.gpus else -1
        within = [part.item(row, gpu) for part in parts] if task.gpus else nowhere
        found = (*[domains.item(row) for domains in codes], row, *within, gpu, task.index)
        return (*found[:by_model], _model(layout, task), *found[by_model:]) if by_model else found

    # A slice is of one model, so inside a domain of slices models come one after the other.
    sorts = [*levels, LEVELS_INSIDE_NODE[-1], *inside]
    by_model = sorts.index(gang.slice_level) + 1 if gang.slice_tasks and gang.slice_level in sorts else 0

    ordered: list[TaskPlacement] = []
    for need in gang.needs:
        members = sorted((task for task in tasks if task.role == need.role), key=place)
        ordered.extend(
            task if task.index == need.first_index + k else replace(task, index=need.first_index + k)
            for k, task in enumerate(members)
        )
    return Seats(tasks=tuple(ordered), level=level_of(layout, gang.levels, tasks))


def _largest_first(layout: Layout, gang: Gang) -> list[str]:
    """Levels above the node in the order of ranks; that of slices before larger ones across which its domains lie."""
    levels = [level for level, _ in reversed(gang.levels)]
    if not gang.slice_tasks or gang.slice_level not in levels:
        return levels
    labels = dict(gang.levels)
    names = layout.domains(labels[gang.slice_level])[1]
    larger = levels[: levels.index(gang.slice_level)]
    inside = (layout.domains_inside(labels[gang.slice_level], labels[level]) for level in larger)
    if all(len(parts) <= len(names) for _, parts in inside):
        return levels
    return [gang.slice_level, *(level for level in levels if level != gang.slice_level)]


def _model(layout: Layout, task: TaskPlacement) -> int:
    """A number for the model of a task's GPUs, whatever they are beside that; -1 for a task without GPUs."""
    if not task.gpus:
        return -1
    kind = layout.kind.item(layout.row[task.node], task.gpus[0].index)
    return kind if kind < 0 else [known.model for known in layout.kinds].index(layout.kinds[kind].model)


def alone(layout: Layout, task: TaskPlacement) -> Seats:
    """The seat of a single task."""
    if len(task.gpus) < 2:
        level = CLOSE[0] if task.gpus else LEVELS_INSIDE_NODE[-1]
    else:
        level = _level_inside(layout, layout.row[task.node], (task,))
    return Seats(tasks=(task,), level=level)


def level_of(layout: Layout, levels: tuple[tuple[str, str], ...], tasks: Sequence[Holding]) -> str:
    """The smallest level that holds all of these tasks; empty when only the whole pool does, or not even that.

    A node may have been assigned to another pool while its tasks go on.
    """
    if any(task.node not in layout.row for task in tasks):
        return ANYWHERE
    rows = sorted({layout.row[task.node] for task in tasks})
    if len(rows) == 1:
        return _level_inside(layout, rows[0], tasks)
    for level, label in levels:
        codes = layout.domains(label)[0]
        if codes[rows[0]] >= 0 and all(codes[row] == codes[rows[0]] for row in rows):
            return level
    return ANYWHERE


def stands_within(layout: Layout, gang: Gang, required: str, tasks: Sequence[Holding]) -> bool:
    """True when one domain of the required level holds all of these tasks; levels need not nest."""
    ladder = gang.ladder()
    label = dict(gang.levels).get(required)
    if label is not None and all(task.node in layout.row for task in tasks):
        found = {layout.domains(label)[0].item(layout.row[task.node]) for task in tasks}
        return len(found) <= 1 and -1 not in found
    if required not in ladder or ladder.index(level_of(layout, gang.levels, tasks)) > ladder.index(required):
        return False
    if required not in CLOSE:
        return True
    parts = layout.part(required)
    inside = {parts.item(layout.row[task.node], share.index) for task in tasks for share in task.gpus}
    return len(inside) <= 1 and -1 not in inside


def _level_inside(layout: Layout, row: int, tasks: Sequence[Holding]) -> str:
    gpus = [share.index for task in tasks for share in task.gpus]
    if len(gpus) == 1:
        return CLOSE[0]
    if gpus:
        for level in CLOSE:
            part = layout.part(level)[row].tolist()
            if part[gpus[0]] >= 0 and all(part[k] == part[gpus[0]] for k in gpus):
                return level
    return LEVELS_INSIDE_NODE[-1]
