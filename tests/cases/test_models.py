"""Kinds of GPUs: matched exactly, never summed over kinds, and charged by the card really used."""

import pytest
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node

from gangline_core.reasons import ReasonCode


def mixed() -> Drive:
    return Drive(node("a", model="H200"), node("b", model="H200"), node("c", model="H100"))


def test_sixteen_of_one_kind_are_not_twenty_four_of_any():
    # opendatahub-io/opendatahub-operator#3331
    drive = mixed()
    one = drive.ask(0, tasks=2, gpus=8, gpu_models=["H100"])
    two = drive.ask(1, tasks=2, gpus=8, gpu_models=["h200"], run=50)
    any_kind = drive.ask(60, tasks=3, gpus=8)
    drive.until(61)
    assert one.refused.code == ReasonCode.NEVER_FITS_MODEL
    assert {"16", "8"} <= set(drive.why(one).replace(",", " ").replace(";", " ").replace(".", " ").split())
    assert two.starts == [1]
    assert drive.is_running(any_kind) == [True], "kinds are mixed only where one kind does not suffice"


def test_any_kind_but_the_same_for_all_can_never_be_twenty_four():
    # opendatahub-io/opendatahub-operator#3331, job C
    drive = mixed()
    same = drive.ask(0, tasks=3, gpus=8, same_model=True)
    fits = drive.ask(1, tasks=2, gpus=8, same_model=True)
    drive.until(2)
    assert same.refused.code == ReasonCode.NEVER_FITS_CLUSTER
    assert drive.why(same) == "The job needs 24 GPUs of one model; the pool has 16."
    assert sorted(drive.where(fits)) == ["a", "b"]


def test_a_gang_that_accepts_any_kind_stays_on_one_where_that_is_possible():
    drive = mixed()
    gang = drive.ask(0, tasks=2, gpus=8)
    drive.until(1)
    assert sorted(drive.where(gang)) == ["a", "b"]


@pytest.mark.parametrize("asked", ["h100", "H100", "H100-NVL", "H10"])
def test_kinds_match_exactly_and_without_regard_to_case(asked):
    drive = Drive(node("a", model="H100-NVL"), node("b", model="H100"))
    job = drive.ask(0, gpus=1, gpu_models=[asked])
    drive.until(1)
    if asked == "H10":
        assert job.refused.code == ReasonCode.NEVER_FITS_MODEL
    else:
        assert drive.where(job) == [{"h100": "b", "h100-nvl": "a"}[asked.lower()]]


def test_the_best_acceptable_kind_that_is_free_is_taken():
    drive = Drive(node("a", gpus=1, model="H100"), node("b", gpus=1, model="A100"))
    jobs = [drive.ask(k, gpus=1, gpu_models=["H100", "A100"]) for k in range(2)]
    drive.until(2)
    assert [drive.where(job) for job in jobs] == [["a"], ["b"]]


def test_a_share_by_memory_is_charged_by_the_card_it_is_on():
    # kai-scheduler/KAI-Scheduler#1795
    drive = Drive(
        node("n1", gpus=1, gpu_memory_mib=16_384, model="V100"), node("n2", gpus=1, gpu_memory_mib=81_920, model="A100")
    )
    jobs = drive.asks_of(3, 0, gpus=0, gpu_memory_mib=20_480)
    half = drive.ask(1, gpus=0.5)
    drive.until(2)
    assert [drive.where(job) for job in jobs] == [["n2"]] * 3
    assert sum(drive.state.use["n2"].gpu_memory_mib) == 61_440
    assert drive.state.usage[""]["gpu_milli:A100"] == 750
    [(where, _)] = drive.gpus(half)
    [share] = drive.tasks(half.id)[0].gpus
    assert (where, share.milli, share.memory_mib) == ("n1", 500, 8192)


def test_a_limit_on_one_kind_sends_the_job_to_another():
    drive = Drive(node("a", model="H100"), node("b", model="A100"), groups=[group("q", limit=gpu_amount(1, "H100"))])
    jobs = [drive.ask(k, gpus=1, gpu_models=["H100", "A100"], group="q") for k in range(3)]
    drive.until(5)
    assert [drive.where(job) for job in jobs] == [["a"], ["b"], ["b"]]
