"""The shell around one cluster: watches feed pictures, the log wakes decisions, both are brought together for ever."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any

from gangline_kit.lane import Lane
from gangline_kit.leader import lead
from gangline_kit.service import Site
from gangline_kubernetes.affinities import Affinities
from gangline_kubernetes.api import Api, Transport, path_of
from gangline_kubernetes.budgets import Budget, Budgets
from gangline_kubernetes.carrier import Carrier
from gangline_kubernetes.claim_versions import served
from gangline_kubernetes.claims import Claims
from gangline_kubernetes.config import Config, DeviceMode
from gangline_kubernetes.desk import Desk
from gangline_kubernetes.devices import Claim, ClaimTemplate, ResourceSlice, TaintRule
from gangline_kubernetes.inventory import NODES_MAX, Inventory
from gangline_kubernetes.leftovers import Leftovers
from gangline_kubernetes.makes import Maker
from gangline_kubernetes.marks import Marks
from gangline_kubernetes.names import GROUP_VERSION
from gangline_kubernetes.nursery import Nursery
from gangline_kubernetes.objects import (
    JobObject,
    KubeNode,
    Namespace,
    OwnerObject,
    Pod,
    PriorityClass,
    SettingObject,
)
from gangline_kubernetes.on_sight import OnSight
from gangline_kubernetes.owner_asks import Asks
from gangline_kubernetes.owner_kinds import COUNTED, GROUPS, KINDS, Group, OwnerKind
from gangline_kubernetes.owner_words import OwnerWords
from gangline_kubernetes.owners import Owners
from gangline_kubernetes.provisioning import Provisioner
from gangline_kubernetes.reach import Reach, closed
from gangline_kubernetes.reporter import Reporter
from gangline_kubernetes.settings import PLURALS, Settings
from gangline_kubernetes.starts import Starter
from gangline_kubernetes.telling import Telling
from gangline_kubernetes.volumes import Volumes
from gangline_kubernetes.watch import T, Watched
from gangline_wire.subjects import token

log = logging.getLogger(__name__)

SYNC_POLL_S = 0.05
RULE_VERSIONS = ("resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3")
"""Versions in which clusters serve rules that taint devices, if they do; of several, a rule counts once."""
PART = "cluster"
"""What /readyz calls the part of the service that waits for the API server."""


async def run(site: Site, config: Config, transport: Transport) -> None:
    """Lead (or stand by for) the cluster's lane until cancelled, over this way to the API server."""
    api = Api(transport, site.clock, site.ids)
    await lead(site, lane_name(config.cluster), Cluster(site, config, api).work, acts_outside=True)


def lane_name(cluster: str) -> str:
    """The lane of a cluster."""
    return f"kubernetes.{token(cluster)}"


class Cluster:
    """One cluster while this process leads its lane; every reign begins with empty pictures."""

    def __init__(self, site: Site, config: Config, api: Api) -> None:
        """Nothing runs before `work`."""
        self.site = site
        self.config = config
        self.api = api
        self.agent = lane_name(config.cluster)
        self.is_listed = False
        """Everything was listed in this reign, so that the nodes' own descriptions say what keeps work from them."""

    async def work(self, lane: Lane) -> None:
        """Bring the log and the cluster together for as long as this process leads, and the server answers."""
        self.is_listed = False
        reach = Reach(self.config, self.api, self.site.clock)
        async with asyncio.TaskGroup() as group:
            group.create_task(reach.look_for_ever(), name="reach")
            group.create_task(self._close_unlisted(lane, reach), name="unlisted")
            await self._bring_together(lane, reach)

    async def _close_unlisted(self, lane: Lane, reach: Reach) -> None:
        """Close the nodes that the log knows, should the server not even let us list them."""
        await reach.became_away.wait()
        if self.is_listed:
            return
        facts = closed(self.site.follower.state, self.agent, reach.problem)
        for first in range(0, len(facts), NODES_MAX):
            await lane.append(tuple(facts[first : first + NODES_MAX]))

    async def _bring_together(self, lane: Lane, reach: Reach) -> None:
        desk = Desk(self.site, self.config, self.api)
        reporter = Reporter(self.site, self.config, self.agent)
        settings = Settings(self.site, self.config, self.api)
        claims, near = await self._claims(), Affinities()
        asks = Asks(self.config, claims, near, Volumes(self.api, self.site.clock, self.config.scheduler_name))
        owners = Owners(self.site, self.config, self.api, desk=desk, asks=asks)
        marks = Marks(self.site, self.config, owners)
        inventory = Inventory(self.site, self.config, self.agent, marks=marks, claims=claims, affinities=near)
        nursery = Nursery(self.site, self.config, self.api, desk=desk, owners=owners, claims=claims)
        maker = Maker(self.site, self.config, self.api, desk=desk, inventory=inventory, nursery=nursery, owners=owners)
        starter = Starter(self.api, self.config, claims, is_away=lambda: bool(reach.problem))
        carrier = Carrier(self.site, self.config, starter=starter, makes=maker, marks=marks, changed=reporter.changed)
        inventory.carrier = reporter.carrier = carrier
        reporter.rests, inventory.happenings = inventory.rests, desk.happenings
        carrier.happenings, inventory.reach = desk.happenings, reach
        telling = reporter.telling = Telling(self.site, self.api, carrier)
        provisioner = Provisioner(self.site, self.config, self.api, desk=desk, agent=self.agent, affinities=near)
        leftovers = Leftovers(self.site, self.config, self.api, self.agent)
        words = OwnerWords(self.site, self.config, self.api, owners)
        budgets = Budgets(self.site, self.config, carrier, owners)
        on_sight = OnSight(self.site, self.config, self.api, desk=desk, owners=owners)

        ears = (carrier.hear, inventory.hear_pod, owners.hear_pod, nursery.hear, on_sight.hear_pod, budgets.hear_pod)
        pods = self._watched(Pod, path_of("v1", "pods"), partial(_hear_pod, (*ears, marks.hear)))
        watches: tuple[Watched[Any], ...] = (pods, *self._objects(desk, settings), *self._machines(inventory, claims))
        watches = (*watches, *self._words(asks, budgets), *self._makers_of_pods(owners, nursery))
        parts = (inventory, reporter, desk, owners, nursery, leftovers, words, on_sight, budgets)
        try:
            with ExitStack() as stack:
                for part in (*parts, provisioner):
                    stack.enter_context(self.site.follower.listening(part.note))
                async with asyncio.TaskGroup() as group:
                    for watched in watches:
                        group.create_task(watched.run(), name="watch")
                    await self._synced(watches)
                    self.is_listed = True
                    _hear_again(pods, carrier, inventory)
                    for mine in parts:
                        mine.take_over()
                    for name, work in (
                        ("nodes", inventory.report_for_ever(lane)),
                        ("views", inventory.sights.listen_for_ever()),
                        ("tasks", reporter.report_for_ever(lane)),
                        ("stuck", reporter.look_for_stuck_for_ever()),
                        ("objects", desk.work_for_ever()),
                        ("settings", settings.work_for_ever()),
                        ("adopted", nursery.work_for_ever()),
                        ("owners", owners.work_for_ever()),
                        ("words", words.work_for_ever()),
                        ("sight", on_sight.work_for_ever()),
                        ("budgets", budgets.work_for_ever()),
                        ("machines", provisioner.work_for_ever()),
                        ("leftovers", leftovers.clean_for_ever()),
                    ):
                        group.create_task(work, name=name)
        finally:
            self.site.not_ready.pop(PART, None)
            await telling.close()
            await carrier.close()

    async def _claims(self) -> Claims:
        """What is known of claims, in the version in which this cluster has them."""
        claims = Claims(self.config.device_class, self.site.clock, lambda: self.site.follower.state.kept.tasks)
        if self.config.mode is DeviceMode.DRA:
            self.site.not_ready[PART] = "the API server has not said which claims it serves"
            claims.version = await served(self.api)
        return claims

    async def _synced(self, watches: tuple[Watched[Any], ...]) -> None:
        """Wait until everything was listed once; /readyz names what was not, such as a kind that is not defined."""
        while missing := [watched.name for watched in watches if not watched.is_synced]:
            self.site.not_ready[PART] = f"not listed yet: {', '.join(missing)}"
            await self.site.clock.sleep(SYNC_POLL_S)
        self.site.not_ready.pop(PART, None)

    def _watched(
        self, kind: type[T], path: str, changed: Callable[[T | None, T | None], None], *, is_optional: bool = False
    ) -> Watched[T]:
        return Watched(
            kind,
            path,
            changed,
            api=self.api,
            clock=self.site.clock,
            ids=self.site.ids,
            metrics=self.site.metrics,
            relist_s=self.config.relist_s,
            is_optional=is_optional,
        )

    def _objects(self, desk: Desk, settings: Settings) -> tuple[Watched[Any], ...]:
        """Our own kinds, and the namespaces that say whose jobs are in them."""
        return (
            self._watched(Namespace, path_of("v1", "namespaces"), desk.hear_namespace),
            self._watched(JobObject, path_of(GROUP_VERSION, "jobs"), desk.hear),
            *(self._watched(SettingObject, path_of(GROUP_VERSION, name), settings.hear) for name in PLURALS.values()),
        )

    def _machines(self, inventory: Inventory, claims: Claims) -> tuple[Watched[Any], ...]:
        """Nodes, what drivers offer on them, and what claims hold of it."""
        nodes = inventory.watched = self._watched(KubeNode, path_of("v1", "nodes"), inventory.hear_node)
        if self.config.mode is not DeviceMode.DRA:
            return (nodes,)

        def path(plural: str) -> str:
            return path_of(claims.version, plural)

        claims.watched = self._watched(Claim, path("resourceclaims"), claims.hear)
        slices = self._watched(ResourceSlice, path("resourceslices"), inventory.hear_slice)
        rules = tuple(
            self._watched(TaintRule, path_of(version, "devicetaintrules"), inventory.hear_rule, is_optional=True)
            for version in RULE_VERSIONS
        )
        if not self.config.adopt:
            return (nodes, slices, claims.watched, *rules)
        templates = self._watched(ClaimTemplate, path("resourceclaimtemplates"), claims.hear_template)
        return (nodes, slices, claims.watched, templates, *rules)

    def _words(self, asks: Asks, budgets: Budgets) -> tuple[Watched[Any], ...]:
        """What others say about pods: which may not go now, and what names of priorities mean in their templates."""
        path = path_of("policy/v1", "poddisruptionbudgets")
        watched = self._watched(Budget, path, budgets.hear, is_optional=True)
        path = path_of("scheduling.k8s.io/v1", "priorityclasses")
        ranks = (self._watched(PriorityClass, path, asks.priorities.hear),) if self.config.adopt else ()
        return (watched, *ranks)

    def _makers_of_pods(self, owners: Owners, nursery: Nursery) -> list[Watched[OwnerObject]]:
        """Kinds of others, as far as this cluster has them."""
        if not self.config.adopt:
            return []
        kinds = [(one.name, self._optional(one, partial(owners.hear, one))) for one in (*KINDS, *COUNTED)]
        owners.offer = partial(nursery.hear, None)

        def is_known(name: str) -> bool:
            """True for a kind that was listed, in any of its versions; without a name, for all kinds."""
            names = {kind for kind, _ in kinds if name in ("", kind)}
            return all(any(one.is_known for kind, one in kinds if kind == each) for each in names)

        def look_for(name: str) -> None:
            """Its definition may have been made since we looked last."""
            for kind, one in kinds:
                if kind == name:
                    one.look_again()

        owners.is_known, owners.look_for = is_known, look_for
        return [*(one for _, one in kinds), *(self._optional(one, nursery.hear_group) for one in GROUPS)]

    def _optional(
        self, kind: OwnerKind | Group, hear: Callable[[OwnerObject | None, OwnerObject | None], None]
    ) -> Watched[OwnerObject]:
        return self._watched(OwnerObject, path_of(kind.group_version, kind.plural), hear, is_optional=True)


def _hear_pod(ears: Iterable[Callable[[Pod | None, Pod | None], None]], before: Pod | None, after: Pod | None) -> None:
    """Tell all who follow pods, in this order."""
    for hear in ears:
        hear(before, after)


def _hear_again(pods: Watched[Pod], carrier: Carrier, inventory: Inventory) -> None:
    """Whose a pod is may be known only now that its owners are."""
    for pod in pods.items.values():
        carrier.hear(None, pod)
        inventory.hear_pod(None, pod)
    log.info("%d nodes, %d pods", len(inventory.nodes), len(pods.items))
