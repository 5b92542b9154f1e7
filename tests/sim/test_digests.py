"""After every message each process must know what all others know, and one number tells whether it does."""

import pytest
from tests.sim.test_upgrade import previous_log

import gangline_kit.follower
from dollhouse.digests import Digest, SameForAll
from dollhouse.plan import Ask, Event, Plan
from dollhouse.play import play
from gangline_core.cluster import Pool
from gangline_core.fold import Message, apply
from gangline_core.kept import PoolState, fresh
from gangline_core.state import State, decode_snapshot, encode_snapshot
from gangline_core.step import Step
from gangline_wire.stored import message

BORROWED = 1000
SHORT = Plan(
    seed=3,
    copies=1,
    events=(Event(at_s=1, what="submit", asks=(Ask(run_s=5), Ask(gpu_milli=4000, tasks=2, run_s=8))),),
)


def test_what_is_folded_from_the_beginning_and_what_comes_of_a_snapshot_have_one_digest() -> None:
    state, digest = State(), Digest()
    for seq, stored in enumerate(previous_log(), start=1):
        apply(state, message(seq, stored.data.encode(), subject=stored.subject))
        ours = digest.of(state.kept)
        if seq % 40 == 0:
            assert ours == Digest().of(decode_snapshot(encode_snapshot(state)).kept), f"after message {seq}"
    assert ours == digest.of(state.kept), "nothing changed"


def test_whatever_changes_changes_the_digest_also_in_place_and_back() -> None:
    kept, digest = fresh(), Digest()
    before = digest.of(kept)
    kept.pools["default"].past.sums["lab"] = 7
    changed = digest.of(kept)
    kept.pools["west"] = PoolState(pool=Pool(name="west"), policy=kept.pools["default"].policy)
    assert len({before, changed, digest.of(kept)}) == 3
    del kept.pools["west"], kept.pools["default"].past.sums["lab"]
    kept.charged |= {"a": 1, "b": 2}
    both = digest.of(kept)
    kept.charged = {"b": 2, "a": 1}
    assert digest.of(kept) == both, "the order in which keys came says nothing"
    kept.charged = {"b": 1, "a": 2}
    assert digest.of(kept) != both
    kept.charged.clear()
    assert digest.of(kept) == Digest().of(kept) == before


def test_who_knows_something_else_after_a_message_is_named() -> None:
    same = SameForAll()
    assert [same.fault("one", 7, 1), same.fault("two", 7, 1), same.fault("one", 8, 2)] == ["", "", ""]
    assert same.fault("two", 8, 3) == "two knows another state than others do"


def test_a_follower_that_strays_for_one_message_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(SHORT).faults == ()
    whole = gangline_kit.follower.apply

    def apply_otherwise(state: State, folded: Message) -> Step:
        if folded.seq == 26 and state.kept.next_job > BORROWED:
            state.kept.next_job -= BORROWED
        step = whole(state, folded)
        if folded.seq == 25 and not strays:
            strays.append(state)
            state.kept.next_job += BORROWED
        return step

    strays: list[State] = []
    monkeypatch.setattr(gangline_kit.follower, "apply", apply_otherwise)
    faults = play(SHORT).faults
    assert strays
    assert any("message 25" in fault and "knows another state than others do" in fault for fault in faults)
