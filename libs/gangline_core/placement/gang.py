"""What a gang asks of room: its roles with sizes, reduced to what placement needs to know."""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import LEVELS_INSIDE_NODE, Pool
from gangline_core.facts import TaskPlacement
from gangline_core.ids import NodeId
from gangline_core.room.layout import Flags, Ints, Layout
from gangline_core.spec import JobSpec, Role, ServiceClass, Toleration, selector_of, tolerations_of

ANYWHERE = ""
"""The level above all others: the whole pool."""


class Where(Struct, frozen=True):
    """Labels that nodes must have, in order, and taints that are accepted."""

    selector: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]
    only: NodeId = NodeId("")
    """The one node that will do; empty for all with the labels."""


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
    exclude_models: tuple[str, ...] = ()
    """Models that will not do, in lower case."""
    near_nic: bool = False
    """Only GPUs that share a PCIe switch with a network card."""
    mig: str = ""
    """A slice of a card that is cut by MIG, such as "3g.20gb"; empty asks for cards that are not cut."""
    beside: bool = False
    """Memory of a GPU and none of its time."""
    gpu_memory_most_mib: int = 0
    """MiB of each whole GPU that it takes; 0 is all of them."""
    liked: tuple[tuple[str, ...], ...] = ()
    """Where all models will do, those that are tried first, tier by tier; the others come after them."""
    where: Where | None = None
    """Nodes that the role may be on, where roles of a gang differ in that; None for all nodes of the gang."""

    @property
    def is_share(self) -> bool:
        """True when each task takes a part of one GPU, a slice included."""
        return not self.gpus and (bool(self.mig) or self.milli > 0 or self.gpu_memory_mib > 0)

    @property
    def wants_gpu(self) -> bool:
        """True when each task takes a GPU or a part of one."""
        return self.gpus > 0 or self.is_share

    @property
    def accepts(self) -> tuple[object, ...]:
        """What decides which GPUs will do, and in which order they are tried."""
        models = (self.models, self.liked, self.exclude_models)
        return (*models, self.gpu_memory_mib, self.near_nic, self.mig, self.wants_gpu)

    @property
    def on_card(self) -> tuple[object, ...]:
        """What decides which GPUs of a node one task takes."""
        return (self.gpus, self.milli, self.gpu_memory_mib, self.gpu_memory_most_mib, self.beside)

    @property
    def of_one(self) -> tuple[object, ...]:
        """What one task needs of a node; equal for tasks that fit exactly the same nodes."""
        devices = tuple(sorted(self.devices.items())) if self.devices else ()
        card = (self.gpus, self.milli, self.gpu_memory_mib, self.mig, self.beside)
        return (*card, self.cpu_milli, self.memory_mib, devices, self.where)

    def within(self, layout: Layout, mask: Flags) -> Flags:
        """Those nodes of the mask that the role may be on."""
        where = self.where
        if where is None:
            return mask
        mask = mask & layout.suits(dict(where.selector), where.tolerations)
        if where.only:
            mask &= np.arange(len(mask)) == layout.row.get(where.only, -1)
        return mask


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
    excluded: tuple[str, ...] = ()
    """Nodes on which no task may be."""
    same_model: bool = False
    """All GPUs are of one model; without it, they only are where that is possible."""
    slice_tasks: int = 0
    """So many tasks with neighbouring ranks stand inside one domain of `slice_level`; 0 asks for no slices."""
    slice_level: str = ""
    spread_level: str = ""
    """At most `spread_most` tasks stand in one domain of this level; empty asks for no spread."""
    spread_most: int = 1
    group: str = ""
    """Whose job it is, for placers that keep something for groups."""
    opportunistic: bool = False
    """It may be sent away as soon as somebody needs its room."""
    pinned: str = ""
    """The named cell in which it stands; empty is any."""

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return sum(need.count for need in self.needs)

    @property
    def whole_gpus(self) -> int:
        """Whole GPUs over all tasks."""
        return sum(need.count * need.gpus for need in self.needs)

    @property
    def is_shaped(self) -> bool:
        """True when slices or a spread are asked for."""
        return bool(self.slice_tasks or self.spread_level)

    @property
    def where(self) -> tuple[object, ...]:
        """Equal for gangs that may be on the same nodes, role by role."""
        own = tuple(need.where for need in self.needs if need.where is not None)
        return (tuple(sorted(self.selector.items())), self.tolerations, self.excluded, self.labels, *own)

    @property
    def labels(self) -> tuple[str, ...]:
        """Node labels that name the domains of the levels it is bound by; a node without one is in no domain."""
        if not (self.required or self.spread_level or self.slice_tasks):
            return ()
        names = dict(self.levels)
        asked = (self.required, self.spread_level, self.slice_level if self.slice_tasks else "")
        return tuple(dict.fromkeys([names[level] for level in asked if level in names]))

    def mask(self, layout: Layout) -> Flags:
        """Nodes that may take tasks of the gang now, of some role at least, whatever is free on them."""
        found = self.open_to(layout)
        for label in self.labels:
            found = found & (layout.domains(label)[0] >= 0)
        return found

    def open_to(self, layout: Layout) -> Flags:
        """The same whether they are in domains of the levels it is bound by or not."""
        own = [need.where for need in self.needs if need.where is not None]
        if not own:
            return layout.eligible(self.selector, self.tolerations, self.excluded)
        found: Flags = np.zeros(len(layout.nodes), dtype=np.bool_)
        for one in own:
            found |= layout.eligible(dict(one.selector), one.tolerations, self.excluded)
        return found

    def domains(self, layout: Layout, level: str) -> tuple[Ints, list[str]]:
        """Domains of a level from the rack upwards, each inside one of the required level, whether they nest or not."""
        names = dict(self.levels)
        return layout.domains_inside(names[level], names.get(self.required, ""))

    def is_one_domain(self, layout: Layout, mask: Flags, level: str) -> bool:
        """True where these nodes are together in one domain of a level at which the gang may stand, the only one."""
        if level not in dict(self.levels) or (level == self.spread_level and self.tasks > self.spread_most):
            return False
        codes, names = self.domains(layout, level)
        return len(names) == 1 and not codes[mask].any()

    def ladder(self) -> tuple[str, ...]:
        """All levels, smallest first; the last is anywhere."""
        return (*LEVELS_INSIDE_NODE, *(level for level, _ in self.levels), ANYWHERE)


class Seats(Struct, frozen=True):
    """Where a whole gang goes, in rank order, and the smallest level that holds it."""

    tasks: tuple[TaskPlacement, ...]
    level: str


def gang_of(spec: JobSpec, sizes: Mapping[str, int], pool: Pool) -> Gang:
    """The gang of a job with these sizes (tasks per role)."""
    roles = [role for role in spec.roles if sizes.get(role.name, 0)]
    places = [where_of(spec, role) for role in roles]
    needs = tuple([need_of(role, sizes.get(role.name, 0)) for role in roles])
    is_one = all(where == places[0] for where in places)
    if not is_one:
        needs = tuple([replace(need, where=where) for need, where in zip(needs, places, strict=True)])
    return Gang(
        needs=needs,
        selector=selector_of(spec, roles[0]) if is_one and roles else spec.node_selector,
        tolerations=tolerations_of(spec, roles[0]) if is_one and roles else spec.tolerations,
        required=spec.topology.required,
        preferred=spec.topology.preferred,
        levels=tuple(pool.topology.items()),
        excluded=spec.exclude_nodes,
        same_model=spec.same_model,
        slice_tasks=spec.topology.slice_tasks,
        slice_level=spec.topology.slice_level,
        spread_level=spec.topology.spread_level,
        spread_most=spec.topology.spread_most,
        group=spec.group,
        opportunistic=spec.service_class == ServiceClass.OPPORTUNISTIC,
        pinned=spec.pinned_cell,
    )


def where_of(spec: JobSpec, role: Role) -> Where:
    """Where the tasks of a role may be."""
    return Where(tuple(sorted(selector_of(spec, role).items())), tolerations_of(spec, role))


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
        exclude_models=tuple(model.lower() for model in resources.exclude_models),
        near_nic=resources.near_nic,
        mig=resources.mig,
        beside=resources.beside,
        gpu_memory_most_mib=resources.gpu_memory_most_mib,
    )
