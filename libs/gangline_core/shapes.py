"""Which jobs are alike: equal in what they ask for, or in whether they could make room for others."""

import msgspec
from msgspec import Struct

from gangline_core.spec import JobSpec, ServiceClass, is_elastic


def shape_key(spec: JobSpec) -> bytes:
    """Bytes that are equal exactly for jobs that no placement, quota or order-free rule can tell apart."""
    roles = [(r.name, r.count, r.min_count, r.max_count, r.sizes, r.resources) for r in spec.roles]
    return msgspec.json.encode(
        (
            spec.group,
            spec.user,
            spec.pool,
            spec.level,
            spec.service_class,
            spec.priority,
            spec.preemptible,
            spec.topology,
            spec.node_selector,
            spec.tolerations,
            spec.time_limit_s,
            spec.protected_s,
            roles,
        ),
        order="deterministic",
    )


class Sort(Struct, frozen=True):
    """What decides whether a live job could make room for another one at all."""

    level: str
    priority: int
    service_class: ServiceClass
    preemptible: bool
    elastic: bool


def sort_of(spec: JobSpec) -> Sort:
    """The sort of a job."""
    return Sort(spec.level, spec.priority, spec.service_class, spec.preemptible, is_elastic(spec))
