"""Can a gang ever stand as it wants to: on one model, in slices that stay together, spread over domains?"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gangline_core.cluster import LEVELS_INSIDE_NODE, Pool
from gangline_core.limits.dimension_names import shown
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.inventory import GpuKind, Inventory, Stock, suitable_gpus, tasks_held
from gangline_core.spec import JobSpec, Role, common_selector, smallest_size

Verdict = tuple[Reason, str] | None
Holds = Callable[[Sequence[Stock], JobSpec], bool]
"""Whether empty machines could hold a whole gang."""


def inside_nodes(stock: Stock, level: str) -> list[Stock]:
    """One machine of a kind, cut into its parts at a level inside nodes; whole for the node itself."""
    if level == LEVELS_INSIDE_NODE[-1]:
        return [Stock(kind=stock.kind, labels=(), count=1)]
    parts: dict[tuple[int, int], list[GpuKind]] = {}
    for gpu in stock.kind.gpus:
        part = {"nvlink": (0, gpu.island), "switch": (gpu.socket, gpu.switch), "socket": (0, gpu.socket)}[level]
        if part[1] >= 0:
            parts.setdefault(part, []).append(gpu)
    found = list(parts.values()) or ([[]] if not stock.kind.gpus else [])
    return [Stock(kind=replace(stock.kind, gpus=tuple(gpus)), labels=(), count=1) for gpus in found]


def domains(inventory: Inventory, pool: Pool, spec: JobSpec, level: str) -> list[tuple[int, list[Stock]]] | None:
    """Domains of a level that may take the job: how many equal ones, and their machines; None for no such level."""
    if level in LEVELS_INSIDE_NODE:
        return [
            (stock.count, [part])
            for stock in inventory.matching(common_selector(spec))
            for part in inside_nodes(stock, level)
        ]
    if level not in pool.topology:
        return None
    by_value: dict[str, list[Stock]] = {}
    for stock in inventory.matching(common_selector(spec), pool.topology[level]):
        if stock.labels[0]:
            by_value.setdefault(stock.labels[0], []).append(stock)
    return [(1, stocks) for stocks in by_value.values()]


def shape_verdict(inventory: Inventory, pool: Pool, spec: JobSpec, holds: Holds) -> Verdict:
    """What of the gang's own wishes no empty pool could grant; None when all could be."""
    return (
        _same_model(inventory.matching(common_selector(spec)), spec, holds)
        or _slices(inventory, pool, spec)
        or _spread(inventory, pool, spec)
    )


def _same_model(stocks: Sequence[Stock], spec: JobSpec, holds: Holds) -> Verdict:
    """All on one model, where only several together would be enough."""
    needs = [role.resources for role in spec.roles if role.resources.wants_gpu]
    if not spec.same_model or not needs:
        return None
    counts: dict[str, int] = {}
    for stock in stocks:
        for gpu in suitable_gpus(stock.kind, needs[0]):
            counts[gpu.model] = counts.get(gpu.model, 0) + stock.count
    if any(holds(stocks, _on_model(spec, model)) for model in counts):
        return None
    gpu_milli = sum(smallest_size(role) * role.resources.gpu_milli for role in spec.roles)
    numbers: dict[str, int | str] = {
        "needed": shown("gpu_milli", gpu_milli)[1],
        "dimension": "GPUs of one model",
        "largest": max(counts.values(), default=0),
    }
    return Reason(ReasonCode.NEVER_FITS_CLUSTER, numbers), "same_model"


def _on_model(spec: JobSpec, model: str) -> JobSpec:
    """The same job on this model alone; a role that does not accept it can have none."""
    return replace(spec, roles=tuple(_role_on_model(role, model) for role in spec.roles))


def _role_on_model(role: Role, model: str) -> Role:
    need = role.resources
    if not need.wants_gpu:
        return role
    accepted = {name.lower() for name in need.gpu_models}
    only = (model,) if not accepted or model in accepted else ("",)
    return replace(role, resources=replace(need, gpu_models=only))


def _slices(inventory: Inventory, pool: Pool, spec: JobSpec) -> Verdict:
    wish = spec.topology
    if not wish.slice_tasks:
        return None
    found = domains(inventory, pool, spec, wish.slice_level)
    for role in spec.roles:
        wanted = smallest_size(role) // wish.slice_tasks
        largest = max((_tasks(stocks, role) for _, stocks in found or []), default=0)
        slices = sum(count * (_tasks(stocks, role) // wish.slice_tasks) for count, stocks in found or [])
        if slices >= wanted:
            continue
        numbers: dict[str, int | str] = {
            "needed": wanted,
            "dimension": f"slices of {wish.slice_tasks} tasks inside one {wish.slice_level}",
            "largest": slices,
        }
        if not slices:
            numbers["needed"] = wish.slice_tasks
            numbers["dimension"] = f"tasks inside one {wish.slice_level}"
            numbers["largest"] = largest
        return Reason(ReasonCode.NEVER_FITS_CLUSTER, numbers), "topology.slices"
    return None


def _spread(inventory: Inventory, pool: Pool, spec: JobSpec) -> Verdict:
    wish = spec.topology
    if not wish.spread_level:
        return None
    is_close = wish.spread_level in LEVELS_INSIDE_NODE[:-1]
    found = [] if is_close else domains(inventory, pool, spec, wish.spread_level) or []
    tasks = sum(smallest_size(role) for role in spec.roles)
    places = sum(
        count * min(wish.spread_most, sum(_tasks(stocks, role) for role in spec.roles)) for count, stocks in found
    )
    if places >= tasks:
        return None
    numbers: dict[str, int | str] = {
        "needed": tasks,
        "dimension": f"places with at most {wish.spread_most} tasks in one {wish.spread_level}",
        "largest": places,
    }
    return Reason(ReasonCode.NEVER_FITS_CLUSTER, numbers), "topology.spread"


def _tasks(stocks: Sequence[Stock], role: Role) -> int:
    return sum(stock.count * tasks_held(stock.kind, role.resources) for stock in stocks)
