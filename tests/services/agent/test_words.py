"""What a gang's word that it met is worth: for this change, at this size, said when all members could be there."""

import pytest
from tests.make import T0, World, node, spec

from gangline_agent.words import EARLY_MS, Words
from gangline_core import facts as f
from gangline_core.job import JobState, ResizeStage
from gangline_core.spec import Elastic, ResizeKind
from gangline_wire.contract import Confirmed


def growing() -> tuple[World, int, str]:
    world = World(node("n1"))
    elastic = Elastic(kind=ResizeKind.TORCHRUN, confirm_s=60, notice_s=30)
    job = world.submit_running(spec(gpus=1, tasks=4, minimum=1, maximum=8, elastic=elastic), "n1")
    world.tell("elastic.default", f.ResizeProposed(pool="default", job=job, role="worker", size=6))
    world.round()
    return world, job, world.tasks(job)[0].id


@pytest.mark.parametrize(
    ("word", "told"),
    [
        (Confirmed(resize=1, size=1), "after change 1 the job has worker 6, not 1"),
        (Confirmed(resize=2, size=6), "the job's last change of size is number 1, not 2"),
        (Confirmed(resize=0, size=6), "the job's last change of size is number 1, not 0"),
        (Confirmed(resize=1, size=6), ""),
    ],
)
def test_a_word_for_another_change_or_size_is_told_what_is_wrong_and_settles_nothing(
    word: Confirmed, told: str
) -> None:
    world, job, name = growing()
    world.start(job)
    words = Words()
    assert words.confirm(world.state, name, word, at=world.at) == told
    assert bool(words.facts(world.state)) == (not told)
    world.tell("agent.sim", f.ResizeConfirmed(job=job, number=word.resize, size=word.size))
    assert (world.job(job).state == JobState.RUNNING) == (not told), "nor does the log believe it"


@pytest.mark.parametrize(("early_ms", "counts"), [(EARLY_MS, True), (EARLY_MS + 1000, False)])
def test_a_word_from_before_the_new_members_were_there_is_no_word(early_ms: int, counts: bool) -> None:
    world, job, name = growing()
    words = Words()
    assert words.confirm(world.state, name, Confirmed(resize=1, size=6), at=world.at) == ""
    assert words.facts(world.state) == ()
    world.wait(early_ms / 1000)
    world.start(job)
    assert world.job(job).resize.stage == ResizeStage.CONFIRMING
    assert bool(words.facts(world.state)) == counts
    assert world.at >= T0
