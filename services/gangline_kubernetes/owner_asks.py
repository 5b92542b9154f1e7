"""The job that an owner's pods will be, or why there can be none."""

import msgspec
from msgspec.structs import replace

from gangline_core.cluster import Pool
from gangline_core.spec import JobSpec
from gangline_kubernetes.adoption import job_of
from gangline_kubernetes.affinities import Affinities
from gangline_kubernetes.claims import Claims
from gangline_kubernetes.config import Config
from gangline_kubernetes.handing import Unfit, fitted_parts
from gangline_kubernetes.objects import OwnerObject, Pod
from gangline_kubernetes.owner_kinds import OwnerKind, Part, is_ours, keeps_by_selector, parts_of, pods_of
from gangline_kubernetes.owner_sizes import bounds_of, elastic_of
from gangline_kubernetes.places import placed, unkept


class Asks:
    """What owners ask for, as far as anything can be promised."""

    def __init__(self, config: Config, claims: Claims, affinities: Affinities) -> None:
        """Judge by these claims; nodes bear labels of these affinities."""
        self.affinities = affinities
        self._config = config
        self._claims = claims

    def hold(self, kind: OwnerKind, found: OwnerObject) -> None:
        """Keep the affinities of an owner whose job is known already."""
        try:
            pods = expected(kind, found, self._config)
        except msgspec.ValidationError:
            return
        self.affinities.hold(found.metadata.uid, [part[0] for part in pods])

    def job(self, kind: OwnerKind, found: OwnerObject, pool: Pool | None) -> JobSpec | Unfit:
        """The job that all pods of this owner are.

        Raises:
            msgspec.ValidationError: as `pods_of`.
        """
        config, parts, claims = self._config, parts_of(kind, found), self._claims
        ours, pods = is_ours(parts, config), expected(kind, found, config)
        asked = fitted_parts(pods, config, is_ours=ours, claims=claims.found, templates=claims.templates)
        if isinstance(asked, Unfit):
            return asked
        if (unfit := placed(found.metadata.uid, [one for (one, *_) in asked], self.affinities)) is not None:
            return unfit
        bounds = bounds_of(kind, found, parts) if ours else ()
        spec = job_of(asked, config, pool, config.gpu_resource, bounds=bounds)
        if not ours and keeps_by_selector(kind) and (why := _unkeepable(kind, parts, spec, config)):
            return Unfit(why)
        return replace(spec, elastic=elastic_of(kind, found)) if any(least < most for least, most in bounds) else spec


def expected(kind: OwnerKind, found: OwnerObject, config: Config) -> list[list[Pod]]:
    """Its pods as far as they say where they may be: hostnames are ours to say when somebody else binds them.

    Raises:
        msgspec.ValidationError: as `pods_of`.
    """
    parts = parts_of(kind, found)
    pods = pods_of(parts, found)
    return pods if is_ours(parts, config) else [[unkept(part[0])] * len(part) for part in pods]


def _unkeepable(kind: OwnerKind, parts: list[Part], spec: JobSpec, config: Config) -> str:
    """Why pods that others bind cannot be kept to their nodes by a node selector, which names one node for a part."""
    large = next((part for part in parts if part.count > 1), None)
    if large is None or spec.topology.required == "node":
        return ""
    return (
        f"part {large.name} has {large.count} pods, and the pod templates of a {kind.name} take no node affinity:"
        f" name schedulerName {config.scheduler_name} in all of its pods, or keep them on one node"
        " (gangline.dev/topology-required: kubernetes.io/hostname)"
    )
