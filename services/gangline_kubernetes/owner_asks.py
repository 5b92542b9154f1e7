"""The job that an owner's pods will be, or why there can be none."""

import msgspec
from msgspec.structs import replace

from gangline_core.cluster import Pool
from gangline_core.spec import JobSpec, Resources, Role
from gangline_kubernetes.adoption import job_of, resources_of
from gangline_kubernetes.affinities import Affinities
from gangline_kubernetes.claims import Claims
from gangline_kubernetes.config import Config
from gangline_kubernetes.handing import Unfit, fitted_parts
from gangline_kubernetes.objects import OwnerObject, Pod
from gangline_kubernetes.owner_kinds import OwnerKind, names_us, parts_of, pods_of, whole_parts
from gangline_kubernetes.owner_sizes import bounds_of, elastic_of
from gangline_kubernetes.ownership import LABEL_KEPT
from gangline_kubernetes.places import placed
from gangline_kubernetes.priorities import Priorities
from gangline_kubernetes.stages import unstaged
from gangline_kubernetes.volumes import Volumes, within

LABEL_INDEXES = "completion-indexes"
"""Label of a job: the numbers of its owner's pods, part by part, where some of them are done already."""
LABEL_PARTS = "owner-parts"
"""Label of a job: which of its owner's parts its roles are, where some are done already."""
SEEN_MAX = 10_000
"""Owners of which it is known that their pods need more than their templates say."""


class Asks:
    """What owners ask for, as far as anything can be promised."""

    def __init__(self, config: Config, claims: Claims, affinities: Affinities, volumes: Volumes) -> None:
        """Judge by these claims; nodes bear labels of these affinities."""
        self.affinities = affinities
        self.volumes = volumes
        self.priorities = Priorities()
        self._config = config
        self._claims = claims
        self._seen: dict[str, dict[str, Resources]] = {}
        """What pods of an owner were seen to need, by its uid and their role."""

    def hold(self, kind: OwnerKind, found: OwnerObject) -> None:
        """Keep the affinities of an owner whose job is known already."""
        try:
            pods = pods_of(parts_of(kind, found), found)
        except msgspec.ValidationError:
            return
        self.affinities.hold(found.metadata.uid, [part[0] for part in pods])

    def learn(self, uid: str, role: Role, pod: Pod) -> str:
        """What a pod needs beyond what is booked for its role, such as sidecars that were put in; empty for nothing.

        The owner's next job books that, too.
        """
        needs, booked = resources_of(pod, self._config.gpu_resource), role.resources
        more = [name for name, mine, its in _amounts(needs, booked) if mine > its]
        if more:
            self._seen.setdefault(uid, {})[role.name] = needs
            while len(self._seen) > SEEN_MAX:
                del self._seen[next(iter(self._seen))]
        return ", ".join(more)

    async def job(self, kind: OwnerKind, found: OwnerObject, pool: Pool | None) -> JobSpec | Unfit:
        """The job that all pods of this owner are.

        Raises:
            msgspec.ValidationError: as `pods_of`.
            RefusedError, TemporaryError: the server does not say where its volumes are.
        """
        config, parts, claims = self._config, parts_of(kind, found), self._claims
        if staged := unstaged(kind, found, config):
            return Unfit(staged)
        pods, ours = pods_of(parts, found), [names_us(part, config) for part in parts]
        reaches = await self.volumes.of_parts(pods)
        if isinstance(reaches, Unfit):
            return reaches
        pods = [[within(part[0], reach)] * len(part) for part, reach in zip(pods, reaches, strict=True)]
        if isinstance(ranked := self.priorities.ranked(pods), Unfit):
            return ranked
        asked = fitted_parts(ranked, config, claims=claims.found, templates=claims.templates)
        if isinstance(asked, Unfit):
            return asked
        if (unfit := placed(found.metadata.uid, [one for (one, *_) in asked], self.affinities)) is not None:
            return unfit
        bounds = bounds_of(kind, found, parts) if all(ours) else ()
        spec = job_of(asked, config, pool, config.gpu_resource, bounds=bounds)
        if any(least < most for least, most in bounds):
            spec = replace(spec, elastic=elastic_of(kind, found))
        seen = self._seen.get(found.metadata.uid, {})
        roles = tuple(_raised(role, seen[role.name]) if role.name in seen else role for role in spec.roles)
        left = [f"{number}:{','.join(map(str, part.indexes))}" for number, part in enumerate(parts) if part.indexes]
        indexes = {LABEL_INDEXES: ";".join(left)} if left else {}
        whole = [part.path for part in whole_parts(kind, found)]
        if len(parts) < len(whole):
            indexes[LABEL_PARTS] = ",".join(str(whole.index(part.path)) for part in parts)
        return replace(spec, roles=roles, labels={**spec.labels, **indexes})


def shape_of(spec: JobSpec) -> tuple[object, ...]:
    """Equal for jobs of one owner that are the same job; the present number of an elastic part does not matter."""
    roles = tuple(replace(role, count=role.min_count) if role.is_elastic else role for role in spec.roles)
    where = (spec.topology, spec.node_selector, spec.tolerations, spec.pool, spec.group)
    may_go = spec.preemptible or LABEL_KEPT in spec.labels
    how = (
        spec.priority,
        spec.preempts,
        spec.checkpoints,
        spec.time_limit_s,
        may_go,
        spec.labels.get(LABEL_INDEXES, ""),
        spec.labels.get(LABEL_PARTS, ""),
    )
    return (roles, *where, *how)


def part_for(spec: JobSpec, number: int) -> int:
    """Which part of its owner a role of the job is."""
    said_so = spec.labels.get(LABEL_PARTS, "").split(",")
    return int(said_so[number]) if len(said_so) > number and said_so[number] else number


def index_for(spec: JobSpec, number: int, index: int) -> int:
    """Number of the pod that is this member of a part of its owner's job."""
    for one in filter(None, spec.labels.get(LABEL_INDEXES, "").split(";")):
        # Before there were several parts, those of the first one stood there alone.
        part, _, rest = one.rpartition(":")
        if int(part or 0) == number:
            said_so = [int(text) for text in rest.split(",")]
            return said_so[index] if index < len(said_so) else index
    return index


def _amounts(mine: Resources, booked: Resources) -> list[tuple[str, int, int]]:
    names = {**booked.devices, **mine.devices}
    return [
        ("GPUs", mine.gpu_milli, booked.gpu_milli),
        ("CPUs", mine.cpu_milli, booked.cpu_milli),
        ("memory", mine.memory_mib, booked.memory_mib),
        *((name, mine.devices.get(name, 0), booked.devices.get(name, 0)) for name in names),
    ]


def _raised(role: Role, seen: Resources) -> Role:
    """The role with what its pods were seen to need besides GPUs, which only their owner's template can say."""
    own = role.resources
    names = sorted({**own.devices, **seen.devices})
    devices = {name: max(own.devices.get(name, 0), seen.devices.get(name, 0)) for name in names}
    needs = replace(
        own,
        cpu_milli=max(own.cpu_milli, seen.cpu_milli),
        memory_mib=max(own.memory_mib, seen.memory_mib),
        gpu_milli=max(own.gpu_milli, seen.gpu_milli),
        devices=devices,
    )
    return replace(role, resources=needs)
