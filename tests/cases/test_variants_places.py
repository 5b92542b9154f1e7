"""Public reports about places, played with other shapes, sizes and orders: fragments, links, racks, parts of cards."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.cases.drive import Drive
from tests.cases.test_fractions import by_memory, two_cards
from tests.cases.test_topology import RACK, racks
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import facts as f
from gangline_core.cluster import Gpu
from gangline_core.ids import NodeId
from gangline_core.making_room.moves import plan_moves
from gangline_core.reasons import ReasonCode
from gangline_core.spec import Resources, Role, TopologyWish
from gangline_wire.jobfile import JobFileError, parse_job

BLOCK = "topology.gangline.dev/block"
PAIRS = [0, 0, 1, 1, 2, 2, 3, 3]


def sick(drive: Drive, name: str, *indexes: int) -> None:
    for index in indexes:
        drive.tell("telemetry", f.GpuFailed(node=NodeId(name), gpu=index, problem="xid 79"))


# --- fragments (F) ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "moves"), [(2, None), (3, 1), (4, 2)])
def test_as_few_moves_as_can_be_are_proposed_and_none_where_there_is_room(wanted, moves):
    # volcano-sh/volcano#3948 with other sizes: free are 1, 2 and 1 GPUs
    world = World(*(node(f"n{k}") for k in (1, 2, 3)))
    for name, sizes in (("n1", (4, 2, 1)), ("n2", (4, 2)), ("n3", (4, 2, 1))):
        for gpus in sizes:
            world.submit_running(spec(gpus=gpus), name)
    waiting = world.submit(gpus=wanted)
    world.round()
    plan = None if moves is None else plan_moves(world.state, world.job(waiting), world.at)
    if moves is None:
        assert world.tasks(waiting)[0].node == "n2"
    else:
        assert len(plan.moves) == moves
        assert world.state.stopping_tasks == {}


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        ({"gpus": 1, "cpus": 100}, "100"),
        ({"gpus": 1, "memory_mib": 700_000}, "700000"),
        ({"gpus": 1, "gpu_memory_mib": 90_000}, "90000"),
        ({"gpus": 2, "tasks": 2, "topology": "nvlink"}, "nvlink"),
    ],
)
def test_quota_for_what_no_machine_has_in_one_place_is_never_held(asked, number):
    # kubernetes-sigs/kueue#4329 in other dimensions
    drive = Drive(
        *[node(f"n{k}", gpus=2, islands=[0, 1]) for k in range(4)], groups=[group("q", limit={"gpu_milli": 8000})]
    )
    large = drive.ask(0, group="q", **asked)
    small = drive.asks_of(8, 1, gpus=1, group="q")
    drive.finish_all()
    assert large.refused is not None
    assert number in drive.why(large)
    assert all(drive.is_running(*small))


@pytest.mark.parametrize(("level", "most", "domains"), [("node", 2, 4), ("rack", 4, 2)])
def test_a_spread_is_kept_and_no_wider_than_asked_for(level, most, domains):
    # volcano-sh/volcano#5078 with other bounds and levels
    machines = [node(f"n{k:02}", labels={RACK: f"r{k // 3}"}) for k in range(12)]
    drive = Drive(*machines)
    service = drive.ask(0, tasks=8, gpus=1, topology=TopologyWish(spread_level=level, spread_most=most))
    drive.until(1)
    names = drive.where(service)
    parts = [name if level == "node" else f"r{int(name[1:]) // 3}" for name in names]
    assert len(set(parts)) == domains
    assert max(parts.count(part) for part in parts) <= most


@pytest.mark.parametrize("lacks", ["cpus", "memory_mib", "devices", "places"])
@pytest.mark.parametrize("other", [True, False])
def test_whatever_a_node_lacks_beside_gpus_nothing_is_sent_there(lacks, other):
    # kai-scheduler/KAI-Scheduler#306 for every dimension
    short = {"cpus": {"cpus": 1}, "memory_mib": {"memory_mib": 512}}.get(lacks, {})
    poor = node("n1", devices={"nic": 0 if lacks == "devices" else 4}, **short)
    if lacks == "places":
        poor = replace(poor, tasks_max=0)
    rich = node("n2", gpus=1, devices={"nic": 4})
    drive = Drive(poor, *([rich] if other else []))
    job = drive.ask(0, gpus=1, cpus=2, memory_mib=1024, devices={"nic": 1})
    more = drive.ask(1, gpus=1, cpus=2, memory_mib=1024, devices={"nic": 1})
    drive.until(2)
    if other:
        assert drive.where(job) == ["n2"]
        assert drive.is_waiting(more) == [True]
    else:
        assert job.refused is not None or drive.is_waiting(job) == [True]
    assert not drive.state.use["n1"].tasks


# --- links and racks (G) ------------------------------------------------------------------------------------


@pytest.mark.parametrize("islands", [[0, 1, 2, 0, 1, 2, 0, 1], [3, 1, 3, 1, 3, 1, 2, 2], [0, 0, 0, 1, 1, 1, 2, 2]])
@pytest.mark.parametrize("gpus", [2, 3])
def test_linked_cards_are_found_whatever_their_numbers_and_however_many_hang_together(islands, gpus):
    # NVIDIA/k8s-device-plugin#546 with islands of two and three
    drive = Drive(node(islands=islands))
    possible = sum(islands.count(island) // gpus for island in set(islands))
    jobs = [drive.ask(k, gpus=gpus, topology="nvlink") for k in range(possible)]
    drive.until(10)
    assert all(drive.is_running(*jobs))
    for job in jobs:
        [(_, cards)] = drive.gpus(job)
        assert len({islands[card] for card in cards}) == 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([1, 1, 1, 2]), max_size=12), st.integers(1, 3), st.permutations(range(8)))
def test_while_jobs_only_arrive_as_many_whole_pairs_are_free_as_can_be(sizes, machines, numbers):
    # NVIDIA/k8s-device-plugin#1193, in general
    islands = [PAIRS[k] for k in numbers]
    drive = Drive(*[node(f"n{k}", islands=islands) for k in range(machines)])
    for k, gpus in enumerate(sizes):
        drive.ask(k, gpus=gpus)
    drive.until(len(sizes) + 1)
    free = whole = 0
    for use in drive.state.use.values():
        empty = [index for index, milli in enumerate(use.gpu_milli) if not milli]
        free += len(empty)
        held = [islands[index] for index in empty]
        whole += sum(held.count(pair) == 2 for pair in range(4))
    assert whole == free // 2


@pytest.mark.parametrize("level", ["nvlink", "socket", "node", "rack"])
@pytest.mark.parametrize("required", [True, False])
def test_sick_parts_are_known_at_every_level(level, required):
    # microsoft/hivedscheduler#25: no part of the level is wholly well
    machines = [
        node(f"n{k}", gpus=4, islands=[0, 0, 1, 1], sockets=[0, 0, 1, 1], labels={RACK: f"r{k // 2}"}) for k in range(4)
    ]
    drive = Drive(*machines)
    size = {"nvlink": 2, "socket": 2, "node": 4, "rack": 8}[level]
    for name in ("n0", "n1", "n2", "n3"):
        sick(drive, name, *((1, 3) if size == 2 else (0,)))
    wish = TopologyWish(required=level) if required else TopologyWish(preferred=level)
    gang = drive.ask(1, tasks=size, gpus=1, topology=wish)
    drive.until(2)
    if not required:
        assert drive.is_running(gang) == [True]
        return
    assert drive.code(gang) == ReasonCode.TOPOLOGY
    well = {"nvlink": 1, "socket": 1, "node": 1, "rack": 2}[level]
    for name in ("n2", "n3")[:well]:
        for index in (0, 1, 3):
            drive.later(50, lambda n=name, i=index: drive.tell("telemetry", f.GpuHealthy(node=NodeId(n), gpu=i)))
    drive.finish_all()
    assert gang.starts == [50]


@pytest.mark.parametrize("returns", [None, 3, 20])
@pytest.mark.parametrize("tasks", [2, 3])
def test_a_lost_member_is_placed_once_wherever_the_lost_node_is_by_then(returns, tasks):
    # kubernetes-sigs/kueue#9210 with more members, and a node that comes back before or after the replacement
    names = [f"n{k}" for k in range(tasks + 1)]
    machines = {name: node(name, gpus=1, labels={RACK: "r"}) for name in names}
    drive = Drive(*machines.values())
    gang = drive.ask(0, tasks=tasks, gpus=1, topology="rack", repair_s=600)
    drive.until(5)
    before = {task.rank: (task.id, task.node) for task in drive.tasks(gang.id)}
    lost = before[0][1]
    drive.lose(lost)
    if returns is not None:
        drive.later(5 + returns, lambda: drive.see(machines[lost]))
    drive.until(40)
    after = {task.rank: (task.id, task.node) for task in drive.tasks(gang.id)}
    assert drive.is_running(gang) == [True]
    assert len({where for _, where in after.values()}) == tasks
    assert {rank: after[rank] for rank in before if rank} == {rank: before[rank] for rank in before if rank}


@pytest.mark.parametrize("sizes", [{"r1": 18, "r2": 18}, {"r1": 17, "r2": 18, "r3": 5}])
@pytest.mark.parametrize("member", [0, 13, 15])
def test_after_failed_starts_and_a_restart_a_gang_still_finds_its_whole_rack(sizes, member):
    # kai-scheduler/KAI-Scheduler#1217 with other racks, other members that fail, and a fold from the log in between
    drive = Drive(*racks(**sizes))
    first = drive.ask(0, tasks=16, gpus=4, topology="rack")
    second = drive.ask(1, tasks=16, gpus=4, topology="rack", retries=2, start=5)
    for k in range(2):
        drive.until(3 + 10 * k)
        task = drive.tasks(second.id)[member]
        drive.tell("agent.sim", f.TaskExited(task=task.id, cause=f.ExitCause.START_FAILED, error="no"))
        drive.empty(task.id)
        drive.until(4 + 10 * k)
        drive.restart()
    drive.until(80)
    ones, others = ({name.partition("-")[0] for name in drive.where(ask)} for ask in (first, second))
    assert len(ones) == len(others) == 1
    assert ones != others
    drive.close()


@pytest.mark.parametrize(("tasks", "gpus", "fits"), [(9, 8, True), (10, 8, False), (36, 2, True), (37, 2, False)])
def test_a_block_that_is_no_power_of_two_is_filled_exactly_and_no_further(tasks, gpus, fits):
    machines = [node(f"b{k // 9}-{k:02}", labels={BLOCK: f"b{k // 9}"}) for k in range(18)]
    drive = Drive(*machines)
    gang = drive.ask(0, tasks=tasks, gpus=gpus, topology="block")
    drive.until(1)
    # A block has 72 GPUs.
    if fits:
        assert len({name.partition("-")[0] for name in drive.where(gang)}) == 1
    elif tasks * gpus > 72:
        assert gang.refused.code == ReasonCode.NEVER_FITS_TOPOLOGY


def test_a_node_without_the_label_is_in_no_rack():
    drive = Drive(node("a", labels={RACK: "r1"}), node("b"), node("c", labels={RACK: "r1"}), node("d"))
    inside = drive.ask(0, tasks=2, gpus=8, topology="rack")
    anywhere = drive.ask(1, tasks=2, gpus=8, topology=TopologyWish(preferred="rack"))
    drive.until(2)
    assert sorted(drive.where(inside)) == ["a", "c"]
    assert sorted(drive.where(anywhere)) == ["b", "d"]


@pytest.mark.parametrize("tasks", [4, 8])
def test_ranks_that_are_neighbours_stand_together(tasks):
    machines = [node(f"n{k}", gpus=2, labels={RACK: f"r{k % 2}", BLOCK: "b"}) for k in range(4)]
    drive = Drive(*machines)
    gang = drive.ask(0, tasks=tasks, gpus=1)
    drive.until(1)
    nodes = [task.node for task in sorted(drive.tasks(gang.id), key=lambda task: task.rank)]
    changes = sum(one != other for one, other in pairwise(nodes))
    assert changes == len(set(nodes)) - 1
    parts = [int(name[1:]) % 2 for name in nodes]
    assert sum(one != other for one, other in pairwise(parts)) == len(set(parts)) - 1


# --- parts of cards (H) -------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 46_068), min_size=1, max_size=3), st.integers(1, 20_000))
def test_cards_hold_as_many_shares_as_whole_numbers_say(cards, share):
    # kai-scheduler/KAI-Scheduler#416 for any cards of one node
    right = sum(card // share for card in cards)
    if right > 60:
        return
    drive = Drive(two_cards(*cards))
    asks = [drive.ask(0, **by_memory(share)) for _ in range(right + 1)]
    drive.until(1)
    assert sum(drive.is_running(*(ask for ask in asks if ask.refused is None))) == right


@pytest.mark.parametrize("order", list(permutations((15, 8, 30))))
def test_three_sizes_of_card_in_one_node_each_hold_what_they_hold(order):
    # AliyunContainerService/gpushare-scheduler-extender#219 with three cards, in any order
    gib = 1024
    drive = Drive(two_cards(10 * gib, 20 * gib, 40 * gib))
    jobs = {size: drive.ask(k, **by_memory(size * gib)) for k, size in enumerate(order)}
    drive.until(4)
    spots = {size: drive.gpus(job)[0][1][0] for size, job in jobs.items() if all(drive.is_running(job))}
    assert all((10, 20, 40)[spot] >= size for size, spot in spots.items())
    assert len(spots) == 3, "best fit leaves the large card to the large share"
    never = drive.ask(5, **by_memory(41 * gib))
    drive.until(6)
    assert never.refused is not None


def test_a_share_too_big_for_any_card_that_is_well_waits_for_its_repair():
    gib = 1024
    drive = Drive(two_cards(10 * gib, 20 * gib))
    sick(drive, "n1", 1)
    job = drive.ask(1, **by_memory(15 * gib))
    drive.until(2)
    assert drive.is_waiting(job) == [True]
    drive.later(30, lambda: drive.tell("telemetry", f.GpuHealthy(node=NodeId("n1"), gpu=1)))
    drive.finish_all()
    assert job.starts == [30]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_whole_cards_and_shares_of_one_instant_never_share_a_card(order):
    # whole and share views are two readings of one ledger, in whatever order they come
    drive = Drive(node(gpus=2))
    kinds = [{"gpus": 0.2}, {"gpus": 1}, {"gpus": 0.8}, by_memory(100)]
    asks = [drive.ask(0, **kinds[k]) for k in order]
    drive.until(1)
    held: dict[int, list[int]] = {}
    for ask in asks:
        for task in drive.tasks(ask.id):
            for share in task.gpus:
                held.setdefault(share.index, []).append(share.milli)
    assert all(sum(parts) <= 1000 for parts in held.values())
    assert all(len(parts) == 1 for parts in held.values() if 1000 in parts)


def test_a_gang_of_whole_cards_does_not_start_while_one_of_them_is_shared():
    drive = Drive(node(gpus=4))
    share = drive.ask(0, gpus=0.25, run=20)
    gang = drive.ask(1, tasks=2, gpus=2)
    drive.finish_all()
    assert share.ended == 20
    assert gang.starts == [20]


@pytest.mark.parametrize("times", [10, 100])
def test_thirds_and_tenths_come_and_go_and_leave_nothing_behind(times):
    # ray-project/ray#42683, release in every order, many times
    drive = Drive(node(gpus=1))
    orders = list(permutations(range(3)))
    for turn in range(times):
        asks = [drive.ask(turn * 4, gpus=part) for part in ((0.33, 0.33, 0.34), (0.7, 0.2, 0.1))[turn % 2]]
        drive.until(turn * 4 + 1)
        assert all(drive.is_running(*asks))
        for k in orders[turn % 6]:
            drive.drop(asks[k])
        drive.until(turn * 4 + 2)
        assert sum(drive.state.use["n1"].gpu_milli) == sum(drive.state.use["n1"].gpu_memory_mib) == 0


# --- slices of cards (MIG) ----------------------------------------------------------------------------------


def slice_of(profile: str) -> tuple[Role, ...]:
    milli = {"1g": 142, "2g": 285, "3g": 428, "4g": 571, "7g": 1000}[profile[:2]]
    need = Resources(gpu_milli=milli, mig=profile, cpu_milli=100)
    return (Role(name="worker", count=1, min_count=1, max_count=1, resources=need, command=("true",)),)


def card(geometry: str = "a100-40gb", cards: int = 1):
    gpus = tuple(Gpu(index=k, model="A100", memory_mib=40_960, mig=geometry) for k in range(cards))
    return replace(node(gpus=cards), gpus=gpus)


@pytest.mark.parametrize(
    ("profiles", "fit"),
    [
        (("1g.5gb",) * 8, 7),
        (("3g.20gb",) * 3, 2),
        (("4g.20gb", "3g.20gb", "1g.5gb"), 2),
        (("4g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"), 3),
        (("2g.10gb", "2g.10gb", "2g.10gb", "1g.5gb", "1g.5gb"), 4),
        (("3g.20gb", "1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb"), 5),
        (("4g.20gb", "4g.20gb"), 1),
        (("7g.40gb", "1g.5gb"), 1),
    ],
)
def test_a_card_holds_the_slices_that_its_memory_slots_allow(profiles, fit):
    drive = Drive(card())
    jobs = [drive.ask(k, roles=slice_of(profile)) for k, profile in enumerate(profiles)]
    drive.until(20)
    assert sum(drive.is_running(*jobs)) == fit
    taken = [share.slots for job in jobs for task in drive.tasks(job.id) for share in task.gpus]
    for k, one in enumerate(taken):
        assert all(not one & other for other in taken[k + 1 :]), "slices lie beside each other"


@pytest.mark.parametrize("order", list(permutations(("1g.5gb", "3g.20gb", "2g.10gb"))))
def test_small_slices_that_came_first_do_not_spoil_the_starts_of_large_ones(order):
    drive = Drive(card())
    jobs = [drive.ask(k, roles=slice_of(profile)) for k, profile in enumerate(order)]
    drive.until(10)
    assert all(drive.is_running(*jobs)), order


def test_free_slots_that_do_not_lie_together_are_no_room_and_are_when_they_do():
    drive = Drive(card())
    ones = [drive.ask(k, roles=slice_of("1g.5gb")) for k in range(7)]
    drive.until(8)
    by_slot = {drive.tasks(one.id)[0].gpus[0].slots.bit_length() - 1: one for one in ones}
    drive.drop(by_slot[1])
    drive.drop(by_slot[2])
    pair = drive.ask(10, roles=slice_of("2g.10gb"))
    drive.until(11)
    assert drive.code(pair) == ReasonCode.INSUFFICIENT_SLICES
    drive.drop(by_slot[3])
    drive.until(12)
    assert drive.is_running(pair) == [True]
    assert drive.tasks(pair.id)[0].gpus[0].slots == 0b1100


# --- kinds (I) ----------------------------------------------------------------------------------------------


def test_a_limit_on_one_kind_is_not_used_up_by_another_whatever_its_spelling():
    # opendatahub-io/opendatahub-operator#3331
    drive = Drive(
        node("a", model="H100"),
        node("b", model="h100"),
        node("c", model="H100-NVL"),
        groups=[group("q", limit=gpu_amount(8, "h100"))],
    )
    other = drive.ask(0, gpus=8, gpu_models=["H100-NVL"], group="q")
    first, second = (drive.ask(1 + k, gpus=8, gpu_models=["H100"], group="q") for k in range(2))
    drive.until(5)
    assert drive.is_running(other, first, second) == [True, True, False]


@pytest.mark.parametrize("mib", [8192, 20_480, 40_960])
def test_a_share_by_memory_counts_against_limits_by_the_card_it_lands_on(mib):
    # kai-scheduler/KAI-Scheduler#1795
    cards = {"n1": 16_384, "n2": 81_920}
    drive = Drive(*[node(name, gpus=1, gpu_memory_mib=size, model=name) for name, size in cards.items()])
    job = drive.ask(0, **by_memory(mib))
    drive.until(1)
    [(where, _)] = drive.gpus(job)
    assert mib <= cards[where]
    assert drive.state.usage[""]["gpu_milli"] == max(1, mib * 1000 // cards[where])


@pytest.mark.parametrize("asked", ["0.0001", "0.0005", 0.3333, "0.1m", "1e-4", "0.33333"])
def test_parts_finer_than_a_thousandth_are_refused_and_never_rounded(asked):
    with pytest.raises(JobFileError) as caught:
        parse_job({"command": ["true"], "gpus": asked})
    assert caught.value.errors[0].path == "gpus"
