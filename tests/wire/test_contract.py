"""What a member is told is another text whenever there is news; what it says becomes whole numbers or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gangline_core.sizes.progress import Point
from gangline_wire.contract import NOTHING_SAID, Report, Sizing, progress
from gangline_wire.jobfile import JobFileError, parse_job

TOLD = Sizing(job=7, attempt=1, task="7-1-worker-0", rank=0, role="worker", size=4, resize=2, stage="settled")


@pytest.mark.parametrize(
    "news",
    [{"attempt": 2}, {"size": 5}, {"resize": 3}, {"stage": "noticed"}, {"leaves": True}, {"pauses": True},
     {"limits": {"gpu_percent": 10}}],
)  # fmt: skip
def test_every_kind_of_news_is_another_version(news: dict) -> None:
    assert replace(TOLD, **news).version != TOLD.version


def test_a_report_is_of_the_shape_at_which_it_was_made() -> None:
    said = progress(Report(step_s=0.25, batch=32, gathered=1), nodes=2, members=8)
    assert said.points == (Point(nodes=2, members=8, batch=32, gathered=1, step_us=250_000),)


def test_what_was_not_said_stays_unsaid() -> None:
    said = progress(Report(percent=12.5), nodes=1, members=1)
    assert said.permille == 125
    assert {said.remaining_s, said.step, said.samples, said.grad_sqr, said.grad_var, said.checkpoint_step} == {
        NOTHING_SAID
    }
    assert said.points == ()


@given(st.floats(), st.floats(), st.floats(), st.integers(), st.floats())
def test_nonsense_is_not_said(percent, remaining_s, step_s, step, grad) -> None:
    said = progress(
        Report(percent=percent, remaining_s=remaining_s, step_s=step_s, step=step, grad_sqr=grad), nodes=1, members=1
    )
    assert -1 <= said.permille <= 1000
    assert said.remaining_s >= -1
    assert said.step >= -1
    assert said.grad_sqr >= -1
    assert all(point.step_us > 0 for point in said.points)


TERMS = {"kind": "torchrun", "notice": "30s", "confirm": "5m", "start": "10m", "cooldown": "15m", "cost": "45s"}


def test_all_terms_of_the_contract_are_read_from_the_job_file() -> None:
    whole = {
        "name": "x", "command": ["true"], "tasks": 4, "min": 2, "max": 8, "protected": "30m",
        "cpus": 1, "memory": "1Gi", "elastic": TERMS,
    }  # fmt: skip
    spec = parse_job(whole)
    [role] = spec.roles
    assert (role.count, role.min_count, role.max_count, spec.protected_s) == (4, 2, 8, 1800)
    read = spec.elastic
    assert (read.kind, read.notice_s, read.confirm_s, read.start_s, read.cooldown_s, read.cost_s) == (
        "torchrun", 30, 300, 600, 900, 45,
    )  # fmt: skip
    for word in ("tasks", "torchrun", "signal", "restart"):
        assert parse_job({**whole, "elastic": {"kind": word}}).elastic.kind == word
    with pytest.raises(JobFileError):
        parse_job({**whole, "elastic": {"kind": "magic"}})
