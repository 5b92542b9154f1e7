"""Whatever is asked for and set at the door, what the queue decides holds, ends, and is told truly, in every pool.

A Hypothesis machine submits through the judge, edits limits, guarantees, lending, borrowing, budgets, prices, users,
priorities and windows, moves jobs and puts them first, fails nodes, and lets time pass. Two pools share all limits.
After each step rounds are held until none is due, and then everything that is told must be so.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace
from tests.make import gpu_amount, group, node, spec
from tests.watched import Watched

from gangline_core import cycle
from gangline_core import facts as f
from gangline_core.door.admission import judge_submit
from gangline_core.door.draft import Draft
from gangline_core.door.edits import JobEdit
from gangline_core.groups import BudgetMode, Group, User
from gangline_core.ids import JobId, NodeId
from gangline_core.job import JobState
from gangline_core.limits.accounting import charge
from gangline_core.limits.quota import Ledger, job_amounts, minimum_sizes
from gangline_core.making_room.claims import alive_victims
from gangline_core.making_room.losses import BY_PRIORITY, BY_SERVICE, is_shielded
from gangline_core.reasons import LIMIT_CODES, ReasonCode
from gangline_core.reserving.windows import Window
from gangline_core.room.holds import claim_fault
from gangline_core.settings import check_group, check_user
from gangline_core.spec import Dependency, ServiceClass
from gangline_core.telling.explain import queue
from gangline_core.wake import next_wake_ms

POOLS = ("default", "other")
NODES = {"n1": ("default", "A100", 8), "n2": ("default", "V100", 4), "p1": ("other", "A100", 4)}
GROUPS = ("a", "a/x", "b", "c")
USERS = ("ada", "eve")
ROUNDS_MAX = 60
SHARES = st.integers(0, 8)


STAYS = st.sampled_from(
    [{}, {}, {"preemptible": False}, {"protected_s": 200}, {"protected_s": -1, "protected_below": 2}]
)
ASKS = st.builds(
    lambda most, stays, **asked: spec(maximum=1 + most, grace_s=5, **asked, **stays),
    most=st.sampled_from([0, 0, 0, 1, 2]),
    stays=STAYS,
    gpus=st.integers(0, 4),
    gpu_models=st.sampled_from([(), (), ("A100",), ("V100",), ("V100", "A100")]),
    group=st.sampled_from(GROUPS),
    user=st.sampled_from(USERS),
    pool=st.sampled_from(POOLS),
    priority=st.integers(0, 2),
    service_class=st.sampled_from([ServiceClass.BURSTABLE, *ServiceClass]),
    time_limit_s=st.sampled_from([0, 60, 600]),
)


def machine(name: str):
    pool, model, gpus = NODES[name]
    return node(name, gpus=gpus, model=model, pool=pool)


class Limits(RuleBasedStateMachine):
    """What heads, administrators, users, machines and the clock may do to limits, and what is asked below them."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Watched(*(machine(name) for name in NODES), groups=[group(path) for path in GROUPS])
        self.edited_ms = 0
        """When anything but a job changed last: claims that are older may be lost to it."""
        self.sent = 0
        for pool in POOLS:
            self.world.set_policy(pool, ordering="priority", starvation_s=300)

    @initialize(owed=st.lists(SHARES, min_size=3, max_size=3), lent=st.lists(SHARES, min_size=3, max_size=3))
    def owners_are_promised_something_and_others_have_it(self, owed, lent):
        left = sum(gpus for _, _, gpus in NODES.values())
        for path, number, most in zip(("a", "b", "c"), owed, lent, strict=True):
            promised = min(number, left)
            left -= promised
            lend = gpu_amount(min(most, promised)) if most % 2 else {}
            self.world.tell(
                "admission", f.GroupSet(group=group(path, guaranteed=gpu_amount(promised), lend_limit=lend), by="root")
            )
        for pool in POOLS:
            self.world.submit(*(spec(gpus=2, group="c", pool=pool, time_limit_s=600, grace_s=5) for _ in range(4)))
        self.settle()

    # --- users --------------------------------------------------------------------------------------------

    @rule(asks=st.lists(ASKS, min_size=1, max_size=4), follows=st.sampled_from([False, False, False, True]))
    def submit(self, asks, follows):
        self.hand_in(asks, follows=follows)

    @rule(asks=st.lists(ASKS, min_size=2, max_size=6))
    def submit_more(self, asks):
        self.hand_in(asks, follows=False)

    def hand_in(self, asks, *, follows: bool) -> None:
        world = self.world
        unfinished = [job.id for job in world.state.kept.jobs.values() if not job.ended_ms]
        for asked in asks:
            if follows and unfinished:
                asked = replace(asked, after=(Dependency(job=unfinished[-1]),))
            self.sent += 1
            judged = judge_submit(
                world.state, Draft(), specs=[asked], submit_id=f"s-{self.sent}", by=asked.user, trace="", at=world.at
            )
            world.tell("admission", *judged.facts)
        self.settle()

    @precondition(lambda self: self.world.in_state(JobState.WAITING))
    @rule(data=st.data(), what=st.sampled_from(["cancel", "hold", "top", "move", "priority"]), number=st.integers(0, 3))
    def steer(self, data, what, number):
        world = self.world
        job = data.draw(st.sampled_from(world.in_state(JobState.WAITING)))
        match what:
            case "cancel":
                world.cancel(job)
            case "hold":
                world.tell("admission", f.HoldSet(job=job, held=True, by="ada"))
            case "top":
                world.tell("admission", f.JobTopped(job=job, among="", by="root"))
            case "move":
                world.tell("admission", f.JobEdited(job=job, edit=JobEdit(pool=POOLS[number % 2]), by="root"))
            case _:
                world.tell("admission", f.JobEdited(job=job, edit=JobEdit(priority=number), by="root"))
        self.settle()

    @precondition(lambda self: self.world.in_state(JobState.HELD))
    @rule(data=st.data())
    def release(self, data):
        held = data.draw(st.sampled_from(self.world.in_state(JobState.HELD)))
        self.world.tell("admission", f.HoldSet(job=held, held=False, by="ada"))
        self.settle()

    # --- settings -----------------------------------------------------------------------------------------

    @rule(
        path=st.sampled_from(("", *GROUPS)),
        guaranteed=SHARES,
        limit=st.none() | SHARES,
        lend=st.none() | SHARES,
        borrow=st.none() | SHARES,
        each=st.none() | st.integers(1, 6),
        running=st.none() | st.integers(0, 5),
        model=st.sampled_from(["", "", "A100"]),
        hours=st.sampled_from([0, 0, 0, 1, 3]),
        mode=st.sampled_from(BudgetMode),
    )
    def edit_a_group(self, path, guaranteed, limit, lend, borrow, each, running, model, hours, mode):
        def amount(number):
            return {} if number is None else gpu_amount(number, model)

        most = amount(limit) | ({} if running is None else {"jobs": running})
        wanted = Group(
            path=path, guaranteed=amount(guaranteed), limit=most, lend_limit=amount(lend), borrow_limit=amount(borrow),
            user_limit=amount(each), budget_gpu_hours=hours, budget_mode=mode,
        )  # fmt: skip
        if check_group(self.world.state, Draft(), wanted) is None:
            self.world.tell("admission", f.GroupSet(group=wanted, by="root"))
            self.change()

    @rule(
        what=st.sampled_from(["user", "user", "price", "window"]),
        name=st.sampled_from(USERS),
        path=st.sampled_from(GROUPS),
        limit=st.none() | SHARES,
        pool=st.sampled_from(POOLS),
        seconds=st.tuples(st.integers(0, 500), st.integers(1, 400)),
    )
    def edit_something_else(self, what, name, path, limit, pool, seconds):
        match what:
            case "user":
                fact = f.UserSet(user=User(name=name, group=path, limit=gpu_amount(limit) if limit else {}), by="root")
                if check_user(self.world.state, Draft(), fact.user) is not None:
                    return
            case "price":
                fact = f.PricesSet(milli={"a100": 500 * (1 + (limit or 0))}, by="root")
            case _:
                start_ms = self.world.at + seconds[0] * 1000
                window = Window(name="w", pool=pool, start_ms=start_ms, end_ms=start_ms + seconds[1] * 1000)
                fact = f.WindowSet(window=window, by="root")
        self.world.tell("admission", fact)
        self.change()

    # --- machines, accounting, time -----------------------------------------------------------------------

    @rule(name=st.sampled_from(sorted(NODES)), is_lost=st.booleans())
    def lose_or_see_a_node(self, name, is_lost):
        world, known = self.world, self.world.state.kept.nodes[NodeId(name)]
        if is_lost and not known.lost:
            world.tell("telemetry", f.NodeLost(node=known.id, silent_ms=30_000))
        elif known.lost:
            gone = [task.id for task in world.state.kept.tasks.values() if task.node == known.id]
            world.see(machine(name))
            world.empty(*(task for task in gone if task in world.state.kept.tasks))
        self.change()

    @precondition(lambda self: self.world.in_state(JobState.RUNNING))
    @rule(data=st.data(), code=st.sampled_from([0, 0, 1]))
    def a_job_ends(self, data, code):
        self.world.finish(data.draw(st.sampled_from(self.world.in_state(JobState.RUNNING))), code=code)
        self.settle()

    @precondition(lambda self: self.world.state.stopping_tasks)
    @rule(data=st.data(), everybody=st.booleans())
    def who_was_told_to_stop_is_gone(self, data, everybody):
        going = sorted(self.world.state.stopping_tasks)
        for task in going if everybody else [data.draw(st.sampled_from(going))]:
            self.world.exit(task, code=143, cause=f.ExitCause.STOPPED).empty(task)
        self.settle()

    @rule(seconds=st.sampled_from([1, 10, 100, 1000, 4000]))
    def time_passes(self, seconds):
        self.world.wait(seconds)
        self.settle()

    # --- rounds, and what must hold after them --------------------------------------------------------------

    def change(self) -> None:
        self.edited_ms = self.world.at + 1
        self.settle()

    def settle(self) -> None:
        self.world.at += 1  # Nothing else happens at the same moment.
        facts = charge(self.world.state, self.world.at)
        if facts:
            self.world.tell("accounting", *facts)
            self.edited_ms = self.world.at
        for _ in range(ROUNDS_MAX):
            due = [pool for pool in POOLS if self.is_due(pool)]
            held = [pool for pool in due if self.round(pool)]
            self.world.start(*self.world.in_state(JobState.STARTING), *self.world.in_state(JobState.RESIZING))
            if not held:
                break
        else:
            raise AssertionError("rounds go on without anything from outside")
        self.everything_told_is_so()

    def is_due(self, pool: str) -> bool:
        world = self.world
        wake_ms = next_wake_ms(world.state, pool, world.state.kept.pools[pool].decided_at)
        return cycle.round_due(world.state, pool) or (wake_ms is not None and wake_ms <= world.at)

    def round(self, pool: str) -> bool:
        """One round: what it decides at once holds, and it loses no claim to anybody's start."""
        world, state = self.world, self.world.state
        cleared = [
            claim.job
            for claim in state.kept.claims.values()
            if claim.made_ms > self.edited_ms and not alive_victims(state, claim) and claim_fault(state, claim) is None
        ]
        opened = cycle.open_round(state, pool, world.at)
        if opened is None:
            return False
        world.tell(f"queue.{pool}", opened)
        decided = cycle.decide_round(state, pool, world.at)
        step = world.tell(f"placement.{pool}", decided)
        assert not step.voided, "a round decided what did not hold at that very moment"
        for eviction in decided.evictions:
            is_by_rank = eviction.rule in (BY_PRIORITY, BY_SERVICE)
            assert not (is_by_rank and is_shielded(world.job(eviction.job), world.at)), "it was left to work"
        lost = set(cleared) & set(decided.claims_dropped)
        assert not any(world.job(job).state == JobState.WAITING for job in lost), "room was cleared in vain"
        return True

    def everything_told_is_so(self) -> None:
        world = self.world
        for pool in POOLS:
            waiting, told = world.waiting(pool), queue(world.state, pool, world.at)
            assert [line.position for line in told] == list(range(1, len(waiting) + 1))
            assert {line.job.id for line in told} == {job.id for job in waiting}
            for line in told:
                assert line.reason.code != ReasonCode.NOT_YET_CONSIDERED, "it was looked at, and no round is due"
                if line.start.from_ms is not None and line.start.to_ms is not None:
                    assert world.at <= line.start.from_ms <= line.start.to_ms
                if line.reason.code in LIMIT_CODES and not world.state.kept.claims:
                    self.limit_is_in_the_way(line.job.id, line.reason)

    def limit_is_in_the_way(self, job: JobId, reason) -> None:
        """The limit that is told is broken now, by these numbers; which model counts is known only with one place."""
        known = self.world.job(job)
        if not known.spec.roles[0].resources.gpu_models[1:] and known.spec.roles[0].resources.gpu_models:
            ledger = Ledger(self.world.state, self.world.at)
            faults = list(ledger.faults(known, job_amounts(known.spec, minimum_sizes(known.spec))))
            assert reason in faults, (reason, faults)


TestLimitsInAnyOrder = Limits.TestCase
TestLimitsInAnyOrder.settings = settings(
    max_examples=15,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
