"""What a gang asks of room: its roles with sizes, reduced to what placement needs to know."""

from collections.abc import Mapping

from msgspec import Struct

from gangline_core.cluster import LEVELS_INSIDE_NODE, Pool
from gangline_core.facts import TaskPlacement
from gangline_core.spec import JobSpec, Role, Toleration

ANYWHERE = ""
"""The level above all others: the whole pool."""


class Need(Struct, frozen=True):
    """So many equal tasks of one role."""

    role: str
    count: int
    gpus: int
    """Whole GPUs per task; 0 for a share or none."""
    milli: int
    """Thousandths of one GPU, for a share; 0 when asked by memory alone or not at all."""
    gpu_memory_mib: int
    """MiB of the share, or the least each whole GPU must have."""
    models: tuple[str, ...]
    """Acceptable models in lower case, best first; empty accepts any."""
    cpu_milli: int
    memory_mib: int
    devices: dict[str, int]
    first_index: int = 0
    """Index of the first of these tasks."""

    @property
    def is_share(self) -> bool:
        """True when each task takes a part of one GPU."""
        return not self.gpus and (self.milli > 0 or self.gpu_memory_mib > 0)

    @property
    def wants_gpu(self) -> bool:
        """True when each task takes a GPU or a part of one."""
        return self.gpus > 0 or self.is_share


class Gang(Struct, frozen=True):
    """Tasks that are placed together or not at all."""

    needs: tuple[Need, ...]
    """In role order, roles without tasks left out."""
    selector: dict[str, str]
    tolerations: tuple[Toleration, ...]
    required: str
    preferred: str
    levels: tuple[tuple[str, str], ...]
    """The pool's levels above the node, smallest first, each with the node label that names its domains."""

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return sum(need.count for need in self.needs)

    @property
    def whole_gpus(self) -> int:
        """Whole GPUs over all tasks."""
        return sum(need.count * need.gpus for need in self.needs)

    def ladder(self) -> tuple[str, ...]:
        """All levels, smallest first; the last is anywhere."""
        return (*LEVELS_INSIDE_NODE, *(level for level, _ in self.levels), ANYWHERE)


class Seats(Struct, frozen=True):
    """Where a whole gang goes, in rank order, and the smallest level that holds it."""

    tasks: tuple[TaskPlacement, ...]
    level: str


def gang_of(spec: JobSpec, sizes: Mapping[str, int], pool: Pool) -> Gang:
    """The gang of a job with these sizes (tasks per role)."""
    needs = (need_of(role, sizes.get(role.name, 0)) for role in spec.roles)
    return Gang(
        needs=tuple(need for need in needs if need.count),
        selector=spec.node_selector,
        tolerations=spec.tolerations,
        required=spec.topology.required,
        preferred=spec.topology.preferred,
        levels=tuple(pool.topology.items()),
    )


def need_of(role: Role, count: int, *, first_index: int = 0) -> Need:
    """So many tasks of a role."""
    resources = role.resources
    return Need(
        role=role.name,
        count=count,
        gpus=resources.whole_gpus,
        milli=resources.gpu_milli if resources.is_gpu_share else 0,
        gpu_memory_mib=resources.gpu_memory_mib,
        models=tuple(model.lower() for model in resources.gpu_models),
        cpu_milli=resources.cpu_milli,
        memory_mib=resources.memory_mib,
        devices=resources.devices,
        first_index=first_index,
    )
