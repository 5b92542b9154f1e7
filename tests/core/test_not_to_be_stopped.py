"""Who waits for room that is owed to it, or held by lower ranks, is told when those who have it may not be stopped."""

from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node

BORROWED = "could make way for it may not be stopped"


def lent() -> Drive:
    return Drive(node(), groups=[group("q1", guaranteed=gpu_amount(4)), group("q2")])


def test_an_owner_is_told_until_when_a_borrower_is_in_its_protected_time():
    drive = lent()
    drive.ask(0, gpus=8, group="q2", protected_s=100)
    owner = drive.ask(10, gpus=4, group="q1")
    drive.until(20)
    assert f"1 job that {BORROWED} before 2023-11-14 22:15:00 UTC." in drive.notes(owner)
    drive.until(100)
    assert drive.is_running(owner) == [True]


def test_an_owner_is_told_that_a_borrower_is_never_stopped():
    drive = lent()
    drive.ask(0, gpus=8, group="q2", preemptible=False)
    owner = drive.ask(10, gpus=4, group="q1")
    drive.until(20)
    assert f"1 job that {BORROWED}." in drive.notes(owner)


def test_of_several_the_first_moment_is_told():
    drive = lent()
    drive.ask(0, gpus=4, group="q2", protected_s=300)
    drive.ask(0, gpus=4, group="q2", protected_s=200)
    owner = drive.ask(10, gpus=4, group="q1")
    drive.until(20)
    assert f"2 jobs that {BORROWED} yet, the first of them from 2023-11-14 22:16:40 UTC on." in drive.notes(owner)
    mixed = lent()
    mixed.ask(0, gpus=4, group="q2", protected_s=-1)
    mixed.ask(0, gpus=4, group="q2", protected_s=200)
    owner = mixed.ask(10, gpus=4, group="q1")
    mixed.until(20)
    assert f"2 jobs that {BORROWED}; 1 of these may from 2023-11-14 22:16:40 UTC on." in mixed.notes(owner)


def test_who_outranks_one_that_is_protected_below_some_rank_only_hears_of_it_below_that():
    drive = Drive(node())
    drive.ask(0, gpus=8, protected_s=100, protected_below=50)
    mine = drive.ask(10, gpus=8, priority=10)
    drive.until(20)
    assert BORROWED in drive.notes(mine)
    drive.ask(30, gpus=8, priority=60)
    drive.until(31)
    assert BORROWED not in drive.notes(mine), "who has the room now is of a higher rank"


def test_nothing_is_said_of_those_who_owe_nothing():
    drive = lent()
    drive.ask(0, gpus=4, group="q1", preemptible=False)
    drive.ask(0, gpus=4, group="q2", preemptible=False)
    beyond, equal = drive.ask(10, gpus=2, group="q1"), drive.ask(10, gpus=2, group="q2")
    drive.until(20)
    assert BORROWED not in drive.notes(beyond) + drive.notes(equal)
