"""From a pod's creation to its binding, through the double and the whole platform, beside the double alone."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import yaml

from bench.child import child
from bench.load import Connection, Load, percentile, post
from bench.rows import Baseline, Measured
from gangline_kubernetes.objects import Event, Pod

NODES = 1_000
PODS = 2_000
GANGS, GANG = 250, 8
FILL = 1_000
"""Pods beyond those, which nobody schedules: 5,000 in all."""
CEILING = 1_000
PACED, PACE = 400, 50
"""Pods that come one by one, so many each second: their wait is the way itself, not the queue before it."""
REFERENCES = {"default_limits": 50.0, "raised_limits.least": 163.0, "raised_limits.most": 253.0}
"""Not measured in this run: the default kube-scheduler (1.36) with a real API server on two cores like these, for 1,000
nodes and pods of one GPU; with its client's usual 50 requests a second and with 5,000, the slowest and the best run."""
IN_FLIGHT = 32
BOUND_S_MAX = 150.0
PODS_PATH = "/api/v1/namespaces/bench/pods"

Marks = dict[str, str]


async def measure() -> AsyncIterator[Measured]:
    """Every row, the double's own ceiling first."""
    async with child("bench.kubestage", "double", "--nodes", str(NODES)) as double:
        url = double["url"]
        ceiling = await binds_alone(url)
        yield Measured("binds.double_alone", ceiling, "binds/s")
        for words, published in REFERENCES.items():
            yield Measured(f"reference.kube_scheduler.{words}", published, "binds/s")
        async with child("bench.kubestage", "platform") as platform, service(url, platform) as first:
            await first.binds(["warm-up"], {})
            idle_s = first.cpu_s()
            async for row in one_by_one(first, ceiling):
                yield row
            async for row in in_gangs(first, ceiling):
                yield row
            async for row in unhurried(first):
                yield row
            spent_s = first.cpu_s() - idle_s
            yield Measured("service_cpu.per_bind", spent_s * 1000 / (PODS + GANGS * GANG + PACED), "ms", better="lower")
            await create(url, [f"fill-{k}" for k in range(FILL)], lambda name: manifest(name, scheduler="nobody"))
            await asyncio.sleep(3.0)
            yield Measured("memory.5000_pods", first.memory_mib(), "MiB", better="lower")
            await first.stop()
            imports_s = await import_s()
            yield Measured("reconcile.imports_alone", imports_s, "s", better="lower")
            begun = time.perf_counter()
            async with service(url, platform) as second:
                await second.binds(["after-restart"], {})
                took_s = time.perf_counter() - begun - imports_s
                yield Measured("reconcile.after_restart", max(0.0, took_s), "s", better="lower")


async def one_by_one(stage: "Service", ceiling: float) -> AsyncIterator[Measured]:
    """Pods of one GPU that arrive as fast as they can be created."""
    took, waits = await stage.binds([f"one-{k}" for k in range(PODS)], {})
    baseline = Baseline("binds.double_alone", ceiling)
    yield Measured("binds.one_gpu", PODS / took, "binds/s", baseline=baseline)
    yield Measured("create_to_bound.one_gpu.p50", percentile(waits, 50) * 1000, "ms", better="lower")
    yield Measured("create_to_bound.one_gpu.p99", percentile(waits, 99) * 1000, "ms", better="lower")


async def in_gangs(stage: "Service", ceiling: float) -> AsyncIterator[Measured]:
    """Gangs of eight pods of one GPU each."""
    names = [f"gang-{k}-{member}" for k in range(GANGS) for member in range(GANG)]
    took, waits = await stage.binds(names, {name: name.rpartition("-")[0] for name in names})
    yield Measured("binds.gangs_of_8", len(names) / took, "binds/s", baseline=Baseline("binds.double_alone", ceiling))
    yield Measured("create_to_bound.gangs_of_8.p50", percentile(waits, 50) * 1000, "ms", better="lower")
    yield Measured("create_to_bound.gangs_of_8.p99", percentile(waits, 99) * 1000, "ms", better="lower")


async def unhurried(stage: "Service") -> AsyncIterator[Measured]:
    """Pods of one GPU at a pace that nobody is short of breath at: what a burst's waits have on top is its backlog."""
    _, waits = await stage.binds([f"paced-{k}" for k in range(PACED)], {}, per_second=PACE)
    yield Measured("create_to_bound.paced.p50", percentile(waits, 50) * 1000, "ms", better="lower")
    yield Measured("create_to_bound.paced.p99", percentile(waits, 99) * 1000, "ms", better="lower")


def manifest(name: str, *, gang: str = "", scheduler: str = "gangline") -> bytes:
    """A pod of one GPU."""
    labels = {"gangline.dev/gang": gang, "gangline.dev/gang-size": str(GANG)} if gang else {}
    resources = {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "trainer:1", "resources": resources}
    return msgspec.json.encode(
        {"metadata": {"name": name, "labels": labels}, "spec": {"schedulerName": scheduler, "containers": [container]}}
    )


async def create(
    url: str, names: list[str], make: Callable[[str], bytes], *, per_second: float = 0
) -> dict[str, float]:
    """Create pods, many in flight, or so many each second; when each was sent."""
    sent: dict[str, float] = {}
    waiting = iter(enumerate(names))
    begun = time.perf_counter()

    async def one_after_another() -> None:
        line = await Connection.open(url)
        for number, name in waiting:
            if per_second:
                await asyncio.sleep(max(0.0, begun + number / per_second - time.perf_counter()))
            sent[name] = time.perf_counter()
            answer = await line.send(post(url, PODS_PATH, body=make(name)))
            if answer.status != 201:
                raise RuntimeError(f"pod {name} was not created: {answer.body[:200]!r}")
        line.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(one_after_another())
    return sent


async def binds_alone(url: str) -> float:
    """Bindings per second that the double takes when nobody decides anything."""
    names = [f"alone-{k}" for k in range(CEILING)]
    await create(url, names, lambda name: manifest(name, scheduler="nobody"))
    waiting = iter(names)
    latencies: list[float] = []

    async def one_after_another() -> None:
        line = await Connection.open(url)
        for name in waiting:
            body = msgspec.json.encode({"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-00000"}})
            begun = time.perf_counter()
            await line.send(post(url, f"{PODS_PATH}/{name}/binding", body=body))
            latencies.append(time.perf_counter() - begun)
        line.close()

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(one_after_another())
    load = Load(count=len(latencies), seconds=time.perf_counter() - begun, latencies_s=latencies, failed=0)
    async with aiohttp.ClientSession() as session, session.delete(f"{url}{PODS_PATH}?gracePeriodSeconds=0"):
        pass
    return load.per_second


class Service:
    """The Kubernetes service as a process."""

    def __init__(self, url: str, process: asyncio.subprocess.Process) -> None:
        """It runs."""
        self.url = url
        self.process = process

    def memory_mib(self) -> float:
        """Resident memory of the process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def cpu_s(self) -> float:
        """Processor time the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def stop(self) -> None:
        """End it as by an upgrade."""
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()

    async def binds(self, names: list[str], gangs: Marks, *, per_second: float = 0) -> tuple[float, list[float]]:
        """Create these pods and wait until all are bound: seconds from first to last, and each pod's wait."""
        bound: dict[str, float] = {}
        watching = asyncio.Event()
        async with asyncio.timeout(BOUND_S_MAX), asyncio.TaskGroup() as group:
            group.create_task(watch_bound(self.url, frozenset(names), bound, watching))
            await watching.wait()
            sent = await create(
                self.url, names, lambda name: manifest(name, gang=gangs.get(name, "")), per_second=per_second
            )
        return max(bound.values()) - min(sent.values()), [bound[name] - sent[name] for name in names]


async def watch_bound(url: str, names: frozenset[str], bound: dict[str, float], watching: asyncio.Event) -> None:
    """Note when each of these pods gets its node."""
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout, read_bufsize=1 << 20) as session:
        async with session.get(f"{url}{PODS_PATH}?limit=1") as answer:
            version = (await answer.json())["metadata"]["resourceVersion"]
        async with session.get(f"{url}{PODS_PATH}?watch=true&resourceVersion={version}") as answer:
            watching.set()
            async for line in answer.content:
                pod = msgspec.json.decode(msgspec.json.decode(line, type=Event).object, type=Pod)
                if pod.spec.node_name and pod.metadata.name in names:
                    bound.setdefault(pod.metadata.name, time.perf_counter())
                    if len(bound) == len(names):
                        return


async def import_s() -> float:
    """How long Python takes to load the program, which is no part of reading the cluster and the log."""
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import gangline_kubernetes.main")
    await process.wait()
    return time.perf_counter() - begun


@asynccontextmanager
async def service(url: str, platform: Marks) -> AsyncIterator[Service]:
    """The service, reading the double's address from a kubeconfig, while the block lasts."""
    with tempfile.TemporaryDirectory(prefix="gangline-bench-") as folder:
        path = Path(folder, "kubeconfig")
        parts = {
            "contexts": [{"name": "double", "context": {"cluster": "double"}}],
            "clusters": [{"name": "double", "cluster": {"server": url}}],
        }
        text = yaml.safe_dump({"current-context": "double", **parts})
        await asyncio.to_thread(path.write_text, text, encoding="utf-8")
        plain = {key: value for key, value in os.environ.items() if not key.startswith("GANGLINE_")}
        settings = {
            "GANGLINE_NATS_URL": platform["nats_url"],
            "GANGLINE_NATS_USER": platform["nats_user"],
            "GANGLINE_NATS_PASSWORD": platform["nats_password"],
            "GANGLINE_PARENT_PID": str(os.getpid()),
            "GANGLINE_LOG_LEVEL": "warning",
            "GANGLINE_KUBERNETES_KUBECONFIG": str(path),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gangline_kubernetes.main", env={**plain, **settings}
        )
        found = Service(url, process)
        try:
            yield found
        finally:
            await found.stop()
