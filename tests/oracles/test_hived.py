"""HiveD's own sequences, shortened: who starts, how close together, who waits and who is sent away."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.cluster import Gpu, Pool
from gangline_core.groups import Group
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.spec import ServiceClass

RACK = "topology.gangline.dev/rack"
TABLE = json.loads((Path(__file__).parent / "data" / "hived.json").read_text(encoding="utf-8"))


class Cluster:
    """Machines of eight cards in racks, with a pool that owes cells."""

    def __init__(self, case) -> None:
        self.rack = {f"n{k}": f"r{k // case['per_rack']}" for k in range(case["machines"])}
        gpus = tuple(Gpu(index=k, model="V100", memory_mib=32_768, island=k // 2, socket=k // 4) for k in range(8))
        machines = [replace(node(name, cpus=96, labels={RACK: rack}), gpus=gpus) for name, rack in self.rack.items()]
        self.world = World(*machines, groups=[Group(path=path) for path in ("vc1", "vc2")])
        self.world.set_policy(placement="cells")
        pool = Pool(name="default", topology={"rack": RACK}, cells=case["cells"])
        self.world.tell("admission", f.PoolSet(pool=pool, by="admin"))
        self.jobs: dict[str, JobId] = {}

    def step(self, step) -> None:
        if "lose" in step:
            self._lose_beside(step["lose"].rpartition(" ")[2])
            return
        is_opportunistic = step.get("opportunistic", False)
        asked = spec(
            tasks=step["tasks"],
            gpus=step["gpus"],
            group=step["group"],
            service_class=ServiceClass.OPPORTUNISTIC if is_opportunistic else ServiceClass.BURSTABLE,
        )
        job = self.jobs[step["job"]] = self.world.submit(asked)
        decided = self.world.round()
        if step["expect"] == "evicts":
            assert {eviction.job for eviction in decided.evictions} == {self.jobs[name] for name in step["victims"]}
            return
        assert (self.world.job(job).state == JobState.STARTING) == (step["expect"] == "starts"), step
        if step["expect"] == "starts":
            self.world.start(job)
            names = {task.node for task in self.world.tasks(job)}
            assert len(names) == step["nodes"]
            assert len({self.rack[name] for name in names}) == step.get("racks", 1)

    def _lose_beside(self, job: str) -> None:
        """The other machine of the rack in which a job runs is lost."""
        [own] = {task.node for task in self.world.tasks(self.jobs[job])}
        other = next(name for name, rack in self.rack.items() if rack == self.rack[own] and name != own)
        self.world.tell("telemetry", f.NodeLost(node=other, silent_ms=30_000))


@pytest.mark.parametrize("case", TABLE["sequences"], ids=lambda case: case["source"])
def test_a_sequence_comes_out_as_in_hived(case):
    cluster = Cluster(case)
    for step in case["steps"]:
        cluster.step(step)
