"""Several schedulers on one pool: nothing is given twice, conflicts change nothing, fresh parts mean fewer of them."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.test_pausing import gpu_spec, resume, suspend
from tests.make import World, node, role, spec
from tests.watched import Watched

from bench.parsync import simulate
from dollhouse.rooms import watched
from gangline_core import cycle, parsync
from gangline_core import facts as f
from gangline_core.fold import Message, apply
from gangline_core.groups import Group
from gangline_core.job import JobState
from gangline_core.parsync import Preference, Sync
from gangline_core.redecide import redecide
from gangline_core.room.seen import Seen
from gangline_core.settings import check_policy
from gangline_core.spec import TopologyWish
from gangline_core.state import State, decode_snapshot, encode_snapshot

POOL = "default"


def world(*nodes, schedulers=2, groups=(), **policy) -> Watched:
    made = Watched(*(nodes or (node(f"n{k}", gpus=8) for k in range(8))), groups=groups)
    # Shares are decided on the state of the open round, and told when others have been told: a test chooses when.
    made.invented.add("scheduler")
    return made.set_policy(schedulers=schedulers, ordering="fifo", **policy)


def shares(made: World) -> list[tuple[int, f.ShareDecided]]:
    """Open a round and let every scheduler decide its share of it on the same state."""
    opened = cycle.open_round(made.state, POOL, made.at)
    assert opened is not None
    made.tell(f"queue.{POOL}", opened)
    numbers = sorted(parsync.asked(made.state, POOL))
    found = [(number, parsync.decide_share(made.state, POOL, number)) for number in numbers]
    return [(number, share) for number, share in found if share is not None]


def commit(made: World, number: int, share: f.ShareDecided) -> None:
    made.tell(f"scheduler.{POOL}.{number}", share)


def decide(made: World) -> f.RoundDecided:
    decided = cycle.decide_round(made.state, POOL, made.at)
    made.tell(f"placement.{POOL}", decided)
    return decided


def held(made: World) -> f.RoundDecided:
    """One whole round."""
    for number, share in shares(made):
        commit(made, number, share)
    return decide(made)


def scheduler(made: World, number: int):
    return made.state.kept.pools[POOL].schedulers[number]


def is_booked_once(state: State) -> bool:
    return all(taken <= 1000 for use in state.use.values() for taken in use.gpu_milli) and all(
        use.cpu_milli <= state.kept.nodes[name].cpu_milli for name, use in state.use.items()
    )


def test_each_job_is_looked_at_by_one_scheduler_and_elements_of_an_array_by_the_same():
    made = world(schedulers=3)
    jobs = [made.submit(gpus=1) for _ in range(9)]
    found = shares(made)
    placed = [placement.job for _, share in found for placement in share.placements]
    assert sorted(placed) == jobs
    for number, share in found:
        assert {parsync.share_of(made.job(p.job), 3) for p in share.placements} == {number}


def test_a_gang_whose_node_changed_since_it_was_seen_is_a_conflict_and_the_leader_places_it_in_the_same_round():
    made = world(node("n1", gpus=8))
    first, second = made.submit(gpus=2), made.submit(gpus=2)
    both = shares(made)
    # Each saw an empty node and took the same GPUs.
    assert len({p.tasks[0].gpus for _, share in both for p in share.placements}) == 1
    for number, share in both:
        commit(made, number, share)
    tallies = [(scheduler(made, k).commits, scheduler(made, k).conflicts) for k in range(2)]
    assert sorted(tallies) == [(0, 1), (1, 0)]
    assert len(made.in_state(JobState.STARTING)) == 1
    decided = decide(made)
    assert len(decided.placements) == 1
    assert made.in_state(JobState.STARTING) == [first, second]
    assert is_booked_once(made.state)


def test_a_node_that_changed_and_changed_back_is_not_what_was_seen():
    made = world(node("n1", gpus=8), scheduler_partitions=4)
    held_job = made.run(made.submit(gpus=1), "n1")
    made.submit(gpus=1)
    [(number, share)] = shares(made)
    made.finish(held_job)
    commit(made, number, share)
    assert scheduler(made, number).conflicts == 1
    assert len(decide(made).placements) == 1


def test_a_scheduler_sees_a_partition_as_it_was_when_its_turn_came():
    names = [f"n{k}" for k in range(12)]
    made = world(*(node(name, gpus=8) for name in names), scheduler_partitions=3)
    made.submit(gpus=8)
    made.submit(gpus=8)
    held(made)
    policy = made.state.kept.pools[POOL].policy
    made.submit_running(spec(gpus=4), names[0])
    for _ in range(6):
        made.submit(gpus=1)
        made.submit(gpus=1)
        opened = cycle.open_round(made.state, POOL, made.at)
        made.tell(f"queue.{POOL}", opened)
        for number in range(2):
            rounds = made.state.kept.pools[POOL].rounds
            for name in scheduler(made, number).view:
                age = parsync.age_of(policy, number, partition=parsync.partition_of(name, 3), round_number=rounds)
                assert age > 0, "what was just synchronised is seen as it is"
        for number in sorted(parsync.asked(made.state, POOL)):
            share = parsync.decide_share(made.state, POOL, number)
            commit(made, number, share)
        decide(made)
    ages = {
        tuple(parsync.age_of(policy, number, partition=part, round_number=turn) for part in range(3))
        for turn in range(3)
        for number in range(2)
    }
    assert all(sorted(each) == [0, 1, 2] for each in ages), "in every round another partition is the fresh one"
    for turn in range(3):
        fresh = [
            [parsync.age_of(policy, number, partition=part, round_number=turn) for part in range(3)].index(0)
            for number in range(2)
        ]
        assert len(set(fresh)) == 2, "neighbours synchronise different partitions"


def test_full_synchronisation_sees_everything_once_per_period():
    made = world(scheduler_sync=Sync.FULL, scheduler_partitions=4)
    policy = made.state.kept.pools[POOL].policy
    ages = [parsync.age_of(policy, 1, partition=part, round_number=7) for part in range(4)]
    assert ages == [0, 0, 0, 0]
    assert [parsync.age_of(policy, 1, partition=2, round_number=turn) for turn in range(4, 8)] == [1, 2, 3, 0]


def test_a_view_shows_what_was_seen_and_not_what_is():
    made = world(node("n1", gpus=8), node("n2", gpus=8), scheduler_partitions=256)
    made.submit(gpus=1)
    made.submit(gpus=1)
    held(made)
    made.submit_running(spec(gpus=6), "n2")
    seen = parsync.view_of(made.state, POOL, 0)
    row = seen.layout.row["n2"]
    assert int(seen.free[row]) > int(made.state.room(POOL).free[row])


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_in_whatever_order_shares_arrive_nothing_is_booked_twice_and_everybody_starts(order):
    made = world(*(node(f"n{k}", gpus=4) for k in range(3)), schedulers=3)
    jobs = [made.submit(gpus=2) for _ in range(6)]
    found = shares(made)
    for place in order:
        commit(made, *found[place])
        assert is_booked_once(made.state)
    decide(made)
    assert made.in_state(JobState.STARTING) == jobs


def test_limits_hold_whoever_decides():
    made = world(schedulers=2, groups=(Group(path="lab", limit={"gpu_milli": 3000}),))
    for _ in range(4):
        made.submit(gpus=2, group="lab")
    held(made)
    assert made.state.usage["lab"]["gpu_milli"] == 2000
    assert is_booked_once(made.state)


def test_two_gangs_never_meet_on_one_port_of_one_address():
    made = world(schedulers=4)
    for _ in range(16):
        made.submit(gpus=1, tasks=2)
    held(made)
    ends = [task.endpoint for task in made.state.kept.tasks.values() if task.rank == 0]
    assert len(ends) == 16
    assert len(set(ends)) == 16


def test_a_share_that_comes_after_its_round_was_decided_books_nothing():
    made = world(schedulers=2)
    made.submit(gpus=1)
    [(number, share)] = shares(made)
    decide(made)
    commit(made, number, share)
    assert scheduler(made, number).answered == share.round
    assert (scheduler(made, number).commits, scheduler(made, number).conflicts) == (0, 0)
    assert len(made.in_state(JobState.STARTING)) == 1


def test_a_scheduler_that_did_not_answer_is_not_waited_for_until_it_does():
    made = world(schedulers=2)
    made.submit(gpus=1)
    made.submit(gpus=1)
    for number, share in shares(made):
        if number == 0:
            commit(made, number, share)
    assert parsync.awaited(made.state, POOL), "the other one may be on its way"
    decide(made)
    made.submit(gpus=1)
    made.submit(gpus=1)
    found = shares(made)
    assert parsync.awaited(made.state, POOL)
    commit(made, *found[0])
    assert not parsync.awaited(made.state, POOL), "it missed a round"
    commit(made, *found[1])
    decide(made)
    made.submit(gpus=1)
    made.submit(gpus=1)
    found = shares(made)
    commit(made, *found[0])
    assert parsync.awaited(made.state, POOL), "it has answered again"


def test_a_share_that_the_leader_did_not_see_undoes_what_it_planned_for_others():
    made = world(node("n1", gpus=4), node("n2", gpus=4), schedulers=2)
    for _ in range(2):
        made.submit_running(spec(gpus=2), "n1")
    made.submit_running(spec(gpus=2, preemptible=False), "n2")
    big, small = made.submit(gpus=4, priority=10), made.submit(gpus=2, priority=10)
    found = shares(made)
    late = [(number, share) for number, share in found if any(p.job == small for p in share.placements)]
    assert late
    # The leader decides without having seen that share: it places the small one, too, and evicts for the big.
    decided = cycle.decide_round(made.state, POOL, made.at)
    seen = made.state.kept.seq
    assert decided.claims
    commit(made, *late[0])
    _told(made, seen, decided)
    assert made.job(small).state == JobState.STARTING
    assert not made.state.stopping_tasks, "nobody makes way for a plan that was made on another picture"
    made.settle()
    assert made.job(big).state in (JobState.STARTING, JobState.RUNNING)
    assert is_booked_once(made.state)


def _told(made: Watched, seen: int, decided: f.RoundDecided) -> None:
    """Fold a decision that was made on an older state."""
    message = Message(
        seq=made.state.kept.seq + 1,
        lane=f"placement.{POOL}",
        epoch=1,
        at=made.at,
        facts=(decided,),
        raw=b"late",
        seen=seen,
    )
    made.log.append(message)
    made.invented.add("placement")
    made.oracles.look(made.state, message, apply(made.state, message))


def test_without_its_schedulers_a_pool_is_served_by_its_leader_alone():
    made = world(schedulers=4)
    job = made.submit(gpus=8, tasks=2)
    assert made.round() is not None
    assert made.job(job).state == JobState.STARTING


def test_who_finds_no_room_has_its_date_and_nobody_behind_it_is_let_past_by_another_scheduler():
    made = world(node("n1", gpus=8), schedulers=2)
    made.submit_running(spec(gpus=6, time_limit_s=600), "n1")
    big = made.submit(gpus=8)
    held(made)
    assert [kept.job for kept in made.state.kept.pools[POOL].reservations] == [big]
    endless, brief = made.submit(gpus=1), made.submit(gpus=1, time_limit_s=60)
    held(made)
    assert made.job(endless).state == JobState.WAITING
    assert made.job(brief).state == JobState.STARTING


def test_a_scheduler_keeps_the_place_of_a_paused_job_and_sends_nobody_away_whom_it_never_saw():
    made = world(node("n1", gpus=1, labels={"name": "n1"}), node("n2", gpus=1), time_slice_s=60)
    paused = made.submit_running(gpu_spec(), "n1")
    suspend(made, paused)
    there = made.submit_running(replace(gpu_spec(), roles=(role(gpus=1, tasks=2),)), "n1", "n2")
    resume(made, paused)
    made.wait(61)
    for name in ("first", "second"):
        made.submit(spec(name, gpus=1, node_selector={"name": "n1"}))
    opened = cycle.open_round(made.state, POOL, made.at)
    assert opened is not None
    made.tell(f"queue.{POOL}", opened)
    state, wrong = decode_snapshot(encode_snapshot(made.state)), list[str]()
    for number, one in state.kept.pools[POOL].schedulers.items():
        one.view["n2"] = Seen(0, 0, (0,), (0,), (0,), {}, 0)
        with watched(wrong.append):
            share = parsync.decide_share(state, POOL, number)
        assert share is None or not share.placements
    assert not wrong
    assert [(one.job, one.beneficiary) for one in decide(made).pauses] == [(there, paused)]


def test_a_claimed_place_is_not_given_away():
    made = world(node("n1", gpus=8), schedulers=2)
    for _ in range(8):
        made.submit_running(spec(gpus=1, grace_s=600), "n1")
    made.submit(gpus=8, priority=100)
    held(made)
    assert made.state.kept.claims
    victim = next(iter(made.state.stopping_tasks))
    made.tell(
        "agent.sim", f.TaskExited(task=victim, cause=f.ExitCause.STOPPED, exit_code=0), f.GpusEmpty(tasks=(victim,))
    )
    small = [made.submit(gpus=1) for _ in range(4)]
    held(made)
    assert all(made.job(job).state == JobState.WAITING for job in small)


def test_the_room_of_a_claim_that_fails_is_the_leaders_to_give():
    made = world(node("n1", gpus=4), node("n2", gpus=4), schedulers=2)
    for name in ("n1", "n2"):
        made.submit_running(spec(gpus=2, grace_s=600), name)
    big = made.submit(gpus=4, tasks=2, priority=100)
    held(made)
    assert big in made.state.kept.claims
    made.tell("telemetry", f.NodeLost(node="n2", silent_ms=30_000))
    for _ in range(2):
        made.submit(gpus=2)
    for number, share in shares(made):
        assert not share.placements, "it is promised until the leader says otherwise"
        commit(made, number, share)
    decided = decide(made)
    assert decided.claims_dropped == (big,)


def test_quality_first_takes_the_best_place_and_prefers_a_fresh_one_among_equals():
    made = world(*(node(f"n{k}", gpus=8) for k in range(16)), scheduler_preference=Preference.QUALITY)
    made.submit(gpus=1)
    made.submit(gpus=1)
    policy = made.state.kept.pools[POOL].policy
    for number, share in shares(made):
        [placement] = share.placements
        part = parsync.partition_of(placement.tasks[0].node, policy.scheduler_partitions)
        assert parsync.age_of(policy, number, partition=part, round_number=1) == 0
    made = world(
        *(node(f"n{k}", gpus=8) for k in range(16)), scheduler_preference=Preference.QUALITY, placement="best_fit"
    )
    made.submit_running(spec(gpus=7), "n3")
    job = made.submit(gpus=1)
    [(_, share)] = shares(made)
    assert [(p.job, p.tasks[0].node) for p in share.placements] == [(job, "n3")], "nothing equals the fullest node"


def test_latency_first_looks_at_the_freshest_partition_first():
    made = world(
        *(node(f"n{k}", gpus=8) for k in range(16)), scheduler_preference=Preference.LATENCY, placement="best_fit"
    )
    made.submit_running(spec(gpus=7), "n3")
    policy = made.state.kept.pools[POOL].policy
    for turn in range(1, 9):
        made.submit(gpus=1)
        [(number, share)] = shares(made)
        part = parsync.partition_of(share.placements[0].tasks[0].node, 8)
        parts = {parsync.partition_of(name, 8) for name in made.state.kept.nodes}
        ages = {p: parsync.age_of(policy, number, partition=p, round_number=turn) for p in parts}
        narrow = min(width for width in (1, 2, 4, 8) if any(age < width for age in ages.values()))
        assert ages[part] < narrow
        commit(made, number, share)
        decide(made)


def test_adaptive_turns_to_freshness_when_jobs_wait_and_back_when_they_do_not():
    made = world(schedulers=2, scheduler_delay_s=5)
    pool = made.state.kept.pools[POOL]
    made.submit(gpus=1)
    made.submit(gpus=1)
    held(made)
    assert parsync.looks_at_quality(pool.policy, scheduler(made, 0))
    made.submit(gpus=1)
    made.submit(gpus=1)
    made.wait(60)
    held(made)
    assert not parsync.looks_at_quality(pool.policy, scheduler(made, 0))
    for _ in range(12):
        made.submit(gpus=1)
        made.submit(gpus=1)
        held(made)
    assert parsync.looks_at_quality(pool.policy, scheduler(made, 0))


def test_every_share_is_decided_again_to_the_byte_from_the_state_it_saw():
    made = world(schedulers=3)
    for k in range(30):
        made.submit(gpus=1 + k % 4)
    for number, share in shares(made):
        again = redecide(made.state, f"scheduler.{POOL}.{number}", (share,), made.at)
        assert again == (share,)


def test_a_snapshot_holds_what_every_scheduler_saw():
    made = world(schedulers=3)
    for k in range(9):
        made.submit(gpus=1 + k % 4)
    held(made)
    restored = decode_snapshot(encode_snapshot(made.state))
    for number in range(3):
        one, other = (parsync.view_of(state, POOL, number) for state in (made.state, restored))
        assert (one.milli == other.milli).all()
    assert encode_snapshot(restored) == encode_snapshot(made.state)


def test_several_schedulers_are_refused_where_one_order_or_one_ledger_of_cells_rules():
    made = world(schedulers=1)
    policy = made.state.kept.pools[POOL].policy
    for wrong, field in (
        ({"schedulers": 2, "lease_s": 60}, "schedulers"),
        ({"schedulers": 0}, "schedulers"),
        ({"schedulers": 33}, "schedulers"),
        ({"scheduler_preference": "fastest"}, "scheduler_preference"),
        ({"scheduler_sync": "never"}, "scheduler_sync"),
        ({"scheduler_partitions": 0}, "scheduler_partitions"),
    ):
        problem = check_policy(made.state, replace(policy, **wrong), POOL)
        assert problem is not None
        assert problem.field == field


asks = st.lists(
    st.tuples(st.integers(1, 8), st.integers(1, 3), st.booleans(), st.integers(0, 3)), min_size=1, max_size=30
)


@settings(max_examples=30, deadline=None)
@given(asks, st.sampled_from(list(Preference)), st.sampled_from(list(Sync)), st.randoms(use_true_random=False))
def test_whatever_arrives_ends_and_changes_nothing_is_ever_booked_twice(asked, preference, sync, chance):
    made = world(
        *(node(f"n{k}", gpus=8, labels={"topology.gangline.dev/rack": f"r{k % 2}"}) for k in range(4)),
        schedulers=3,
        scheduler_partitions=3,
        scheduler_preference=preference,
        scheduler_sync=sync,
    )
    twin, begun = None, 0
    for number, (gpus, tasks, wants_rack, ends) in enumerate(asked):
        if number == len(asked) // 2:
            twin, begun = decode_snapshot(encode_snapshot(made.state)), len(made.log)
        wish = TopologyWish(required="rack") if wants_rack else TopologyWish()
        made.submit(spec(gpus=gpus, tasks=tasks, topology=wish))
        opened = cycle.open_round(made.state, POOL, made.at)
        if opened is None:
            continue
        made.tell(f"queue.{POOL}", opened)
        turns = sorted(parsync.asked(made.state, POOL))
        found = [(turn, parsync.decide_share(made.state, POOL, turn)) for turn in turns]
        chance.shuffle(found)
        for turn, share in found:
            live = made.in_state(JobState.RUNNING)
            if ends and live:
                made.finish(live[ends % len(live)])
            commit(made, turn, share)
            assert is_booked_once(made.state)
        decide(made)
        made.settle()
        assert is_booked_once(made.state)
    assert twin is not None
    for message in made.log[begun:]:
        apply(twin, message, strict=True)
    assert encode_snapshot(twin) == encode_snapshot(made.state), "whoever begins with a snapshot knows the same"


def test_partitions_in_turn_conflict_less_than_everything_at_once_and_place_about_as_well():
    full, parted = (simulate(Preference.QUALITY, sync=sync, turns=24) for sync in (Sync.FULL, Sync.PARTITIONED))
    assert parted.conflict_percent < 0.9 * full.conflict_percent
    assert parted.quality >= 0.9 * full.quality


def test_freshness_first_hardly_ever_conflicts():
    found = simulate(Preference.LATENCY, sync=Sync.PARTITIONED, turns=24)
    assert found.conflict_percent < 5
    assert found.left_percent < 5
