"""Random clusters, queues and mishaps: whatever happens, the oracles hold, changes end, and the log replays."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.drive import Ask, Drive
from tests.make import gpu_amount, group, node

from gangline_core import facts as f
from gangline_core.ids import NodeId
from gangline_core.job import ENDS, JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.spec import ServiceClass

RACK = "topology.gangline.dev/rack"
NAMES = ("n0", "n1", "n2")
PATHS = ("a", "b", "a/x")


def machine(name: str):
    kind = {"n0": ("A100", 40_960), "n1": ("A100", 40_960), "n2": ("H100", 81_920)}[name]
    return node(
        name,
        gpus=4,
        model=kind[0],
        gpu_memory_mib=kind[1],
        islands=[0, 0, 1, 1],
        cpus=16,
        memory_mib=65_536,
        labels={RACK: "r0" if name == "n0" else "r1"},
    )


@st.composite
def asked(draw) -> dict:
    fields: dict = {
        "at": draw(st.integers(0, 40)),
        "group": draw(st.sampled_from(PATHS)),
        "user": draw(st.sampled_from(["ada", "bob"])),
        "priority": draw(st.sampled_from([0, 0, 1, 2])),
        "run": draw(st.integers(1, 40)),
        "limit": draw(st.sampled_from([0, 15, 60])),
        "stop": draw(st.sampled_from([0, 0, 4])),
        "start": draw(st.sampled_from([0, 0, 3])),
        "code": draw(st.sampled_from([0, 0, 0, 1])),
        "retries": draw(st.sampled_from([0, 1])),
        "service_class": draw(st.sampled_from([ServiceClass.BURSTABLE, *ServiceClass])),
        "topology": draw(st.sampled_from(["", "", "node", "rack", "nvlink"])),
        "protected_s": draw(st.sampled_from([0, 0, 10])),
    }
    match draw(st.sampled_from(["whole", "whole", "elastic", "share", "memory", "cpu"])):
        case "whole":
            models = draw(st.sampled_from([(), ("A100",), ("H100", "A100")]))
            fields |= {"tasks": draw(st.integers(1, 4)), "gpus": draw(st.integers(1, 4)), "gpu_models": models}
        case "elastic":
            sizes = draw(st.sampled_from([(), (1, 2, 4)]))
            fields |= {"tasks": 2, "minimum": 1, "maximum": 4, "gpus": draw(st.integers(1, 2)), "sizes": sizes}
        case "share":
            fields |= {"tasks": draw(st.integers(1, 3)), "gpus": draw(st.sampled_from([0.1, 0.5, 0.9]))}
        case "memory":
            fields |= {"gpus": 0, "gpu_memory_mib": draw(st.sampled_from([1, 1000, 30_000]))}
        case _:
            fields |= {"gpus": 0, "cpus": draw(st.integers(1, 16))}
    return fields


def mishap(drive: Drive, asks: list[Ask], kind: str, number: int) -> None:
    """Something happens from outside; it may find nothing to happen to."""
    name = NAMES[number % len(NAMES)]
    ask = asks[number % len(asks)]
    match kind:
        case "cancel":
            if ask.id:
                drive.drop(ask)
        case "hold" | "release":
            if ask.id:
                drive.tell("admission", f.HoldSet(job=ask.id, held=kind == "hold", by="ada"))
        case "lose":
            drive.lose(name)
        case "see":
            drive.see(machine(name))
        case "drain" | "open":
            drive.drain(name, drained=kind == "drain")
        case "sick":
            drive.tell("telemetry", f.GpuFailed(node=NodeId(name), gpu=number % 4, problem="xid"))
        case "well":
            drive.tell("telemetry", f.GpuHealthy(node=NodeId(name), gpu=number % 4))
        case "limit":
            drive.set_group("a", limit=gpu_amount(number % 9), guaranteed=gpu_amount(number % 5))
        case _:
            drive.restart()


KINDS = ("cancel", "hold", "release", "lose", "see", "drain", "open", "sick", "well", "limit", "restart")


@settings(max_examples=20)
@given(
    st.lists(asked(), min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from(KINDS), st.integers(0, 30)), max_size=8),
    st.fixed_dictionaries(
        {
            "ordering": st.sampled_from(["fifo", "priority", "weighted"]),
            "placement": st.sampled_from(["best_fit", "spread", "topology"]),
            "backfill": st.booleans(),
            "preemption": st.sampled_from([True, True, False]),
        }
    ),
)
def test_whatever_happens_the_books_are_right_and_changes_end(jobs, mishaps, policy):
    drive = Drive(
        *[machine(name) for name in NAMES],
        groups=[
            group("a", guaranteed=gpu_amount(4), limit=gpu_amount(8)),
            group("a/x", guaranteed=gpu_amount(2)),
            group("b", guaranteed=gpu_amount(2), user_limit=gpu_amount(6)),
        ],
        policy=policy,
    )
    asks = [drive.ask(**fields) for fields in jobs]
    for at, kind, number in mishaps:
        drive.later(at, lambda kind=kind, number=number: mishap(drive, asks, kind, number))
    drive.later(100, lambda: make_whole(drive))
    drive.until(100_000)
    drive.close()
    for ask in asks:
        if ask.id and drive.job(ask.id).state not in (*ENDS, JobState.HELD, JobState.SUSPENDED):
            raise AssertionError(f"job {ask.id} is {drive.job(ask.id).state}: {drive.why(ask)}")
    assert recompute(drive.state) == {}
    assert not drive.state.kept.claims
    pairs = {(eviction.victim, eviction.beneficiary) for eviction in drive.evicted}
    assert not {(beneficiary, victim) for victim, beneficiary in pairs} & pairs


def make_whole(drive: Drive) -> None:
    """Everything is well again, so that whatever is still there can end."""
    for name in NAMES:
        drive.see(machine(name))
        drive.drain(name, drained=False)
        for index in range(4):
            drive.tell("telemetry", f.GpuHealthy(node=NodeId(name), gpu=index))
    drive.set_group("a")
    drive.set_group("b")
