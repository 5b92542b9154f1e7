"""A whole platform on the in-memory bus beside an API server double with kubelets, all in one virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from tests.kubernetes.test_chart import rendered

import gangline_accounting.app
import gangline_accounting.config
import gangline_admission.app
import gangline_admission.config
import gangline_elastic.app
import gangline_elastic.config
import gangline_placement.app
import gangline_placement.config
import gangline_queue.app
import gangline_queue.config
import gangline_telemetry.app
import gangline_telemetry.config
import programs
from dollhouse.clock import LoopClock
from dollhouse.world import World
from gangline_core.facts import Fact
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.limits.usage_by_class import recompute
from gangline_kit.errors import OutcomeUnknownError, TemporaryError
from gangline_kit.follower import as_message
from gangline_kit.service import Site
from gangline_kubernetes.api import Answer, refusal
from gangline_kubernetes.app import run as run_cluster
from gangline_kubernetes.config import Config
from gangline_kubernetes.definitions import definitions
from gangline_wire.streams import LOG
from kubedouble.claims import ClaimController
from kubedouble.faults import CutError
from kubedouble.kubelet import Kubelets, Life, life_of
from kubedouble.rights import Rule, rules_for
from kubedouble.server import Double

Object = dict[str, Any]

NAMESPACE = "team"
JOBS = f"/apis/gangline.dev/v1alpha1/namespaces/{NAMESPACE}/jobs"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


TOKEN = "token-of-the-service"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
SERVICE_ACCOUNT = "system:serviceaccount:system:release-gangline-kubernetes"
LEAVING = "system:serviceaccount:system:release-gangline-leave"


class MemoryTransport:
    """See gangline_kubernetes.api.Transport: straight into the double, no sockets."""

    def __init__(self, double: Double, account: str = SERVICE_ACCOUNT) -> None:
        self.double = double
        double.users[TOKEN] = account

    async def send(self, method: str, path: str, query: str, body: Any, form: str, timeout_s: float) -> Answer:
        """See Transport."""
        try:
            async with asyncio.timeout(timeout_s):
                data = b"" if body is None else msgspec.json.encode(body)
                answer = await self.double.handle(method, path, query, data, {"Content-Type": form, **BEARER})
        except CutError as error:
            raise (TemporaryError if self.double.faults.away else OutcomeUnknownError)(str(error)) from error
        except TimeoutError as error:
            raise OutcomeUnknownError("no answer in time") from error
        await asyncio.sleep(0.001)
        return Answer(status=answer.status, body=answer.body, headers=answer.headers)

    async def stream(self, path: str, query: str, idle_s: float) -> AsyncIterator[bytes]:
        """See Transport."""
        try:
            answer = await self.double.handle("GET", path, query, headers=BEARER)
            if answer.stream is None:
                if answer.status == 200:
                    return
                raise refusal(Answer(status=answer.status, body=answer.body))
            async for part in answer.stream:
                for line in part.splitlines():
                    yield line
        except CutError as error:
            raise TemporaryError(str(error)) from error


class House:
    """The platform, the cluster, and hands to use both."""

    def __init__(self, world: World, double: Double, kubelets: Kubelets) -> None:
        self.world = world
        self.double = double
        self.kubelets = kubelets

    @property
    def facts(self) -> list[Fact]:
        """Every fact of the log."""
        stored = self.world.server.streams[LOG.name].messages
        return [fact for one in stored for fact in as_message(one).facts]

    async def ask(
        self, method: str, path: str, body: Any = None, form: str = "application/json", query: str = ""
    ) -> Any:
        """One request to the API server, which must succeed."""
        data = b"" if body is None else msgspec.json.encode(body)
        answer = await self.double.handle(method, path, "", data, {"Content-Type": form})
        assert answer.status < 300, answer.body
        return msgspec.json.decode(answer.body)

    async def apply(self, name: str, **spec: Any) -> Object:
        """Make a Job object."""
        body = {"apiVersion": "gangline.dev/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        made: Object = await self.ask("POST", JOBS, body)
        return made

    async def object(self, name: str) -> Object:
        """The Job object as it is."""
        found: Object = await self.ask("GET", f"{JOBS}/{name}")
        return found

    async def pods(self, **fields: str) -> list[Object]:
        """Pods of the team, by label."""
        found = await self.ask("GET", PODS)
        return [pod for pod in found["items"] if fields.items() <= (pod["metadata"].get("labels") or {}).items()]

    def stored(self, storage: str, namespace: str = "") -> list[Object]:
        """Objects as the server has them."""
        return self.double.store.all(storage, namespace)

    def job(self, number: int) -> Job:
        """The job as the witness knows it."""
        return self.world.state.kept.jobs[JobId(number)]

    async def until(self, claim: Callable[[], bool], within_s: float = 60.0, what: str = "") -> None:
        """Let time pass until the claim holds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        while not _holds(claim):
            self.world.check()
            assert loop.time() < end, f"not within {within_s} s: {what or claim}"
            await asyncio.sleep(0.05)

    def status(self, name: str) -> Object:
        """The Job object's status, empty before it has one."""
        found = self.double.store.get("gangline.dev/jobs", NAMESPACE, name) or {}
        return found.get("status") or {}

    async def phase(self, name: str, wanted: str, within_s: float = 60.0) -> Object:
        """Wait until the Job object's phase is this."""

        def claim() -> bool:
            found = self.double.store.get("gangline.dev/jobs", NAMESPACE, name)
            return found is not None and (found.get("status") or {}).get("phase") == wanted

        found = self.double.store.get("gangline.dev/jobs", NAMESPACE, name) or {}
        await self.until(claim, within_s, f"{name} to be {wanted}, is {found.get('status')}")
        return await self.object(name)


def _holds(claim: Callable[[], bool]) -> bool:
    """Whether it holds; what it speaks of may not be there yet."""
    try:
        return claim()
    except KeyError:
        return False


def condition(found: Object, kind: str) -> Object:
    """A condition of an object, by type."""
    conditions: list[Object] = found["status"]["conditions"]
    return next(one for one in conditions if one["type"] == kind)


@asynccontextmanager
async def opened(
    nodes: int = 2,
    *,
    gpus: int = 8,
    life: Callable[[Object], Life] = life_of,
    prepare: Callable[[Double], None] = lambda double: None,
    **settings: Any,
) -> AsyncIterator[House]:
    """A platform with one cluster of so many nodes; not a fixture, as time is virtual only inside a test.

    `prepare` makes the server another one before anybody sees it.
    """
    clock = LoopClock()
    double = Double(lambda: clock.now_ms() / 1000)
    prepare(double)
    kubelets = Kubelets(double, life)
    ClaimController(double)
    for number in range(nodes):
        kubelets.add_node(f"n{number}", gpus=gpus)
    for one in definitions():
        await double.handle(
            "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", msgspec.json.encode(one)
        )
    for name in (NAMESPACE, "gangline-jobs"):
        body = {"metadata": {"name": name, "annotations": {"gangline.dev/group": "lab", "gangline.dev/user": "ann"}}}
        await double.handle("POST", "/api/v1/namespaces", "", msgspec.json.encode(body))
    config = msgspec.convert({"image": "trainer:1", **settings}, Config)
    double.rights = granted(config)

    async def run(site: Site, config: Config) -> None:
        await run_cluster(site, config, MemoryTransport(double))

    async with World() as world:
        start_platform(world)
        world.start("kubernetes", run, config)
        house = House(world, double, kubelets)
        if nodes:
            await world.until(lambda state: len(state.kept.nodes) == nodes)
        yield house
        world.check()
        assert recompute(world.state) == {path: used for path, used in world.state.usage.items() if used}


def granted(config: Config) -> dict[str, tuple[Rule, ...]]:
    """What the chart lets its service accounts do, so that no test passes with a right that it does not give."""
    if programs.found("helm") is None:
        return {}
    values = (f"cluster.mode={config.mode}", f"cluster.adopt={str(config.adopt).lower()}")
    objects = rendered([*values, f"cluster.provisioningClass={config.provisioning_class}"])
    return {account: rules_for(account, objects) for account in (SERVICE_ACCOUNT, LEAVING)}


def start_platform(world: World) -> None:
    """Every deciding service."""
    admission = gangline_admission.config.Config(first_group="lab", first_user="ann")
    world.start("admission", gangline_admission.app.run, admission)
    world.start("queue", gangline_queue.app.run, gangline_queue.config.Config())
    world.start("placement", gangline_placement.app.run, gangline_placement.config.Config())
    world.start("elastic", gangline_elastic.app.run, gangline_elastic.config.Config())
    world.start("accounting", gangline_accounting.app.run, gangline_accounting.config.Config())
    world.start("telemetry", gangline_telemetry.app.run, gangline_telemetry.config.Config())
