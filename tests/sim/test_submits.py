"""Submits over HTTP, through gateways that die and servers that do not answer: one key is one job, whatever broke."""

import pytest

from dollhouse.connection import Rates
from dollhouse.plan import Ask, Event, Plan
from dollhouse.play import play

HANG_UPS = 10
TROUBLE = (
    ("crash", "gateway", 0.3),
    ("crash_at", "gateway", 0.0),
    ("restart", "gateway-2", 0.0),
    ("freeze", "gateway", 4.0),
    ("swallow", "gateway-2", 8.0),
    ("crash_leader", "admission", 1.0),
    ("freeze_leader", "admission", 6.0),
    ("two_leaders", "admission", 0.0),
)


def plan(seed: int) -> Plan:
    """Twenty submits, some hung up on, some repeated, while everything between client and log breaks."""
    submits = [
        Event(at_s=1 + n, what="submit", number=4 * (n % HANG_UPS) + 1 + n % 2, asks=(Ask(gpu_milli=250, run_s=2),))
        for n in range(20)
    ]
    troubles = [
        Event(at_s=2.2 + 2 * n + seed / 3, what=what, who=who, seconds=seconds, number=seed * 7 + n)
        for n, (what, who, seconds) in enumerate(TROUBLE)
    ]
    again = [Event(at_s=24 + n, what="again", number=5 * n) for n in range(4)]
    events = tuple(sorted((*submits, *troubles, *again), key=lambda event: event.at_s))
    rates = Rates(answers_lost=0.01, refused=0.03, doubled=0.2, undecided=0.02)
    return Plan(seed=seed, events=events, rates=rates, copies=2, doors=2)


@pytest.mark.parametrize("seed", range(3))
def test_a_submit_that_is_repeated_by_whatever_broke_is_one_job(seed: int) -> None:
    outcome = play(plan(seed))
    assert not outcome.faults, outcome.faults
    assert outcome.jobs == 20
