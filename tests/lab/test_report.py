"""The page about a log shows what happened, and text from users stays text."""

import pytest
from tests.lab.logged import LoggedWorld
from tests.make import group, node, spec

from gangline_core import facts as f
from gangline_core.reasons import Reason, ReasonCode
from gangline_lab.chronicle import Chronicle, chronicle
from gangline_lab.replay import ReplayReport
from gangline_lab.report import page
from gangline_lab.summary import summarise

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def told() -> Chronicle:
    """A job that waits for a reason with a nasty name in it."""
    world = LoggedWorld(node("n1", gpus=2), groups=[group("a")])
    world.submit_running(spec(group="a", gpus=2), "n1")
    waits = world.submit(spec(EVIL, group="a", gpus=2))
    reason = Reason(ReasonCode.GROUP_LIMIT, {"group": EVIL, "used": 2, "limit": 2, "dimension": "GPUs", "needed": 2})
    refusal = f.Refusal(reason=reason, jobs=(waits,))
    world.tell("placement.default", f.RoundDecided(pool="default", round=0, refusals=(refusal,)))
    world.wait(30).see(node("n1", gpus=2))
    return chronicle(world.log)


def test_a_page_shows_plots_waits_and_reasons(told: Chronicle) -> None:
    text = page(told, summarise(told), title="T", notes=["how it came about"])
    for part in ("Pool default: GPUs in use", "Pool default: queue", "Waits by group", "Longest waits", "GroupLimit"):
        assert part in text
    assert "how it came about" in text


def test_nothing_a_user_wrote_becomes_part_of_the_page_itself(told: Chronicle) -> None:
    text = page(told, summarise(told), title=EVIL, notes=[EVIL])
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_a_page_tells_whether_the_replay_was_equal(told: Chronicle) -> None:
    report = ReplayReport(messages=3, facts=4, compared={}, inputs={"agent": 3}, last_seq=3, head="ab")
    assert "byte for byte" in page(told, summarise(told), title="T", replayed=report)


def test_the_page_of_a_log_of_months_is_no_larger_than_that_of_a_day() -> None:
    """It drew every second between the first and the last decision: seven million of them, for which nobody waited."""
    sizes = []
    for days in (1, 90):
        world = LoggedWorld(node("n1", gpus=2))
        world.submit(spec(name="first"))
        world.settle()
        world.wait(86_400 * days).submit(spec(name="last"))
        world.settle()
        told = chronicle(world.log)
        sizes.append(len(page(told, summarise(told), title="T")))
    assert sizes[1] < 1.1 * sizes[0]


def test_an_empty_log_has_a_page() -> None:
    nothing = chronicle([])
    assert "<h1>T</h1>" in page(nothing, summarise(nothing), title="T")


def test_what_machines_measured_is_drawn_from_the_second_summary_on() -> None:
    world = LoggedWorld(node("n1", gpus=4), groups=[group("a")])
    world.submit_running(spec(group="a", gpus=4), "n1")
    for percent in (90, 50, 50):
        world.wait(60).tell(
            "telemetry", f.UtilisationSummary(node="n1", gpu_percent=percent, memory_mib=None, samples=60)
        )
    told = chronicle(world.log)
    (first, second) = told.busy["default"]
    assert (first[1] - first[0], first[2], second[2]) == (60_000, 2_000, 2_000)
    text = page(told, summarise(told), title="T", notes=[])
    assert "busy, as measured" in text
    assert "busy 2, there 4 GPUs" in text
