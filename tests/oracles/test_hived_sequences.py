"""HiveD's own test sequences on its own cluster: chains, pinned cells, lazy and immediate preemption, bad hardware."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.make import World, node, role, spec

from gangline_core import facts as f
from gangline_core.cluster import Gpu, PinnedCell, Pool
from gangline_core.door.admission import judge_submit
from gangline_core.door.draft import Draft
from gangline_core.groups import Group
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.room.cells import promise_fault
from gangline_core.room.layout import Layout
from gangline_core.spec import ServiceClass

PAIR, CHAIN = "topology.gangline.dev/pair", "chain"
TABLE = json.loads((Path(__file__).parent / "data" / "hived_sequences.json").read_text(encoding="utf-8"))
PAIR_OF = {name: pair[0] for pair in TABLE["pairs"] for name in pair}


def cards(model: str, count: int) -> tuple[Gpu, ...]:
    """The parts of each chain: pairs below switches below sockets; the CT1 cards stand alone."""
    if model == "CT1":
        return tuple(Gpu(index=k, model=model, memory_mib=16_384, island=k) for k in range(count))
    per_switch = count // 4
    return tuple(
        Gpu(
            index=k, model=model, memory_mib=32_768, island=k // 2, switch=k // per_switch, socket=k // (2 * per_switch)
        )
        for k in range(count)
    )


def machines():
    return [
        replace(
            node(name, cpus=128, labels={CHAIN: chain, **({PAIR: PAIR_OF[name]} if name in PAIR_OF else {})}),
            gpus=cards(kind["model"], kind["gpus"]),
        )
        for chain, kind in TABLE["machines"].items()
        for name in kind["names"]
    ]


def pool(tenants: str) -> Pool:
    pinned = {name: PinnedCell(**pin) for name, pin in TABLE["pinned"].items()}
    return Pool(name="default", topology={"pair": PAIR}, cells=TABLE["tenants"][tenants], pinned=pinned)


class Cluster:
    """HiveD's design example, with a table of what each pod became."""

    def __init__(self, tenants: str) -> None:
        self.world = World(*machines(), groups=[Group(path=path) for path in ("vc1", "vc2")])
        self.world.set_policy(placement="cells")
        self.world.tell("admission", f.PoolSet(pool=pool(tenants), by="admin"))
        self.jobs: dict[str, JobId] = {}

    def asked(self, step):
        names = [name for kind in TABLE["machines"].values() for name in kind["names"]]
        allowed = step.get("only", names)
        roles = [
            role(f"r{k}", gpus=gpus, cpus=0, gpu_models=[step["model"]] if "model" in step else [])
            for k, gpus in enumerate(step["tasks"])
        ]
        is_opportunistic = step.get("opportunistic", False)
        return spec(
            roles=roles,
            group=step["group"],
            priority=step.get("priority", 0),
            service_class=ServiceClass.OPPORTUNISTIC if is_opportunistic else ServiceClass.BURSTABLE,
            pinned_cell=step.get("pinned", ""),
            lazy_preemption=step.get("lazy", False),
            exclude_nodes=tuple(name for name in names if name not in allowed or name in step.get("without", ())),
        )

    def nodes(self, pod: str) -> list[str]:
        return [task.node for task in self.world.tasks(self.jobs[pod])]

    def step(self, step) -> None:
        if "lose" in step:
            self.lose(step)
            return
        job = self.jobs[step["pod"]] = self.world.submit(self.asked(step))
        decided = self.world.round()
        lowered = {self.jobs[name] for name in step.get("lowers", ())}
        assert {one.job for one in decided.lowerings} == lowered, step
        evicted = {one.job for one in decided.evictions}
        if step["expect"] == "evicts":
            assert evicted == {self.jobs[name] for name in step["victims"]}
            assert [claim.job for claim in decided.claims] == [job]
        else:
            assert not evicted, step
            assert not decided.claims
            assert (self.world.job(job).state == JobState.STARTING) == (step["expect"] == "starts"), step
        if step["expect"] == "starts":
            self.world.start(job)
            self.check_place(step)
        for name in step.get("lowers", ()):
            assert self.world.job(self.jobs[name]).state == JobState.RUNNING
        self.end(job, step.get("then"))

    def end(self, job: JobId, how: str | None) -> None:
        if how == "finish":
            self.world.finish(job)
        if how == "cancel":
            self.world.cancel(job)

    def check_place(self, step) -> None:
        nodes = self.nodes(step["pod"])
        if "on" in step:
            assert set(nodes) == set(step["on"])
        if "machines" in step:
            assert len(set(nodes)) == step["machines"]
        if "pairs" in step:
            assert len({PAIR_OF[name] for name in nodes}) == step["pairs"]
        if "beside" in step:
            assert set(nodes) == set(self.nodes(step["beside"]))
        if "apart" in step:
            assert not set(nodes) & set(self.nodes(step["apart"]))
        if "of" in step:
            assert set(nodes) <= set(TABLE["machines"][step["of"]]["names"])
        if "sockets" in step:
            [task] = self.world.tasks(self.jobs[step["pod"]])
            assert len({share.index // 8 for share in task.gpus}) == step["sockets"]

    def lose(self, step) -> None:
        name = step["lose"]
        if name.startswith("beside "):
            [own] = self.nodes(name.removeprefix("beside "))
            [name] = [other for pair in TABLE["pairs"] if own in pair for other in pair if other != own]
        self.world.tell("telemetry", f.NodeLost(node=name, silent_ms=30_000))
        self.world.stop_all()
        decided = self.world.round()
        if "drops" in step:
            assert decided.claims_dropped == (self.jobs[step["drops"]],)
            assert self.world.job(self.jobs[step["drops"]]).state == JobState.WAITING


@pytest.mark.parametrize("case", TABLE["sequences"], ids=lambda case: case["name"])
def test_a_sequence_comes_out_as_in_hived(case):
    cluster = Cluster(case["tenants"])
    for step in case["steps"]:
        cluster.step(step)


@pytest.mark.parametrize("tenants", sorted(TABLE["tenants"]))
def test_every_division_of_the_design_example_can_be_kept(tenants):
    layout = Layout(machines())
    for one in layout.nodes:
        layout.put(one)
    assert promise_fault(layout, pool(tenants)) is None


@pytest.mark.parametrize("case", TABLE["refused"], ids=lambda case: case["why"])
def test_what_hived_calls_a_users_error_is_refused_at_the_door(case):
    cluster = Cluster("design")
    judged = judge_submit(
        cluster.world.state,
        Draft(),
        specs=[cluster.asked(case)],
        submit_id="s",
        by="ada",
        trace="",
        at=cluster.world.at,
    )
    assert [reason.code for _, reason, _ in judged.refusals] == [case["code"]]
