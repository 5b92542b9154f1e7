"""Tuning: what is searched around a policy, what comes of it, and what it is worth on times it did not see."""

from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace
from tests.lab.simulated import record, trace

from gangline_core.cluster import Policy
from gangline_core.settings import check_policy
from gangline_core.state import State
from gangline_lab.readers.archives import read_history
from gangline_lab.tune import Tuned, TuneError, page_of, tune, tuned_lines
from gangline_lab.tuning_space import space_of
from gangline_wire.policyfile import parse_policy


def test_tuning_finds_that_short_jobs_first_shorten_waits_and_shows_it_on_what_it_did_not_see(tmp_path: Path) -> None:
    jobs = trace(*((30 * k, 4, 20 if k % 4 else 200) for k in range(36)))
    history = read_history(record(tmp_path / "a", jobs))
    tuned = tune(history, "mean_wait", trials=10)
    assert tuned == tune(history, "mean_wait", trials=10)
    assert tuned.trained_after < tuned.trained_before
    assert tuned.held_out_after < tuned.held_out_before
    assert tuned.change_low <= tuned.held_out_after - tuned.held_out_before <= tuned.change_high
    assert tuned.jobs_trained + tuned.jobs_held_out == 36
    page = parse_policy(yaml.safe_load("\n".join(page_of(tuned))))
    assert (page.policies["default"].ordering, page.policies["default"].formula) == ("weighted", tuned.formula)
    assert "\n".join(page_of(tuned)) in "\n".join(tuned_lines(tuned))


def test_tuning_begins_with_the_formula_and_settings_that_are_there() -> None:
    own = "level + 1000 * priority + 10 * age_hours - 3 * attr_urgency + where(gpus > 8, 5, 0) - 2 * log(1 + gpus)"
    present = Policy(formula=own, starvation_s=5_000, backfill_depth=3)
    space = space_of(present)
    assert space.policy(space.start()) == present
    assert [name for name, _ in space.settings] == [
        "starvation_s",
        "starvation_percent",
        "backfill_depth",
        "unlimited_run_percent",
    ]
    assert "age_hours" not in space.new
    most = space.policy([1.0] * space.size)
    assert (most.starvation_s, most.backfill_depth) == (86_400, 8)
    assert most.formula.startswith("level + 1000 * priority + 640 * age_hours - 192 * attr_urgency")
    assert " - 128 * log(1 + gpus)" in most.formula
    none = space.policy([0.0] * space.size)
    assert none.formula == "level + 1000 * priority"
    assert check_policy(State(), most) is None


def test_what_is_switched_off_is_not_searched_and_other_orderings_start_from_a_formula() -> None:
    space = space_of(Policy(ordering="fifo", starvation_s=0, backfill=False))
    assert (space.own, space.settings) == ((), ())
    assert space.policy(space.start()).formula == "level + 1000 * priority"
    share = space_of(Policy())
    assert "half_life_s" in dict(share.settings)


def test_tuning_never_trains_worse_than_what_is_there_and_prints_changed_settings(tmp_path: Path) -> None:
    """Wide jobs wait for their date: a sooner one for the oldest shortens no wait that the present policy has not."""
    jobs = trace(*((30 * k, 4, 20 if k % 4 else 200) for k in range(36)))
    shortest = Policy(formula="level + 1000 * priority - 40 * estimate_hours * gpus", starvation_s=86_400)
    history = read_history(record(tmp_path / "a", jobs, shortest))
    tuned = tune(history, "mean_wait", trials=10)
    assert tuned.trained_after <= tuned.trained_before
    changed = replace(
        tuned, is_none=False, settings={"starvation_s": (3_600, 900)}, policy=replace(tuned.policy, starvation_s=900)
    )
    assert {"- starvation_s: 3600", "+ starvation_s: 900"} <= set(tuned_lines(changed))
    page = parse_policy(yaml.safe_load("\n".join(page_of(changed))))
    assert page.policies["default"].starvation_s == 900


def test_the_page_to_apply_keeps_what_the_policy_says_beside_what_was_searched(tmp_path: Path) -> None:
    """What a page leaves out of a policy is reset to the default when it is applied."""
    own = Policy(preemption=False, candidates_max=77)
    jobs = trace(*((30 * k, 4, 20 if k % 4 else 200) for k in range(12)))
    tuned = tune(read_history(record(tmp_path / "a", jobs, own)), "mean_wait", trials=4)
    applied = parse_policy(yaml.safe_load("\n".join(page_of(tuned)))).policies["default"]
    changed = {name: after for name, (_, after) in tuned.settings.items()}
    assert applied == replace(own, ordering="weighted", formula=tuned.formula, version=applied.version, **changed)
    assert (applied.preemption, applied.candidates_max) == (False, 77)


def test_where_nothing_is_better_the_policy_is_left_as_it_is_whatever_its_ordering(tmp_path: Path) -> None:
    """Of a page with another ordering a formula was made that is worth as much, and shown as the change to apply."""
    jobs = trace(*((1000 * k, 1, 20) for k in range(9)))
    alone = Policy(ordering="least_attained", service_thresholds=(100,))
    tuned = tune(read_history(record(tmp_path / "a", jobs, alone)), "mean_wait", trials=4)
    assert tuned.is_none
    assert (tuned.formula, tuned.settings, tuned.policy.ordering) == ("least_attained", {}, "least_attained")
    text = "\n".join(tuned_lines(tuned))
    assert "nothing that was tried is better" in text
    assert "To apply it" not in text


def test_where_nobody_waited_in_the_held_out_part_tuning_says_that_it_shows_nothing() -> None:
    told = Tuned(
        pool="default",
        goal="mean_wait",
        before="fifo",
        formula="level",
        trials=1,
        trained_before=9.0,
        trained_after=5.0,
        held_out_before=0.0,
        held_out_after=0.0,
        change_low=0.0,
        change_high=0.0,
        jobs_trained=2,
        jobs_held_out=1,
    )
    assert "nobody waited" in "\n".join(tuned_lines(told))
    assert "no certain gain" in "\n".join(tuned_lines(replace(told, held_out_before=3.0)))


def test_too_short_a_history_is_no_teacher(tmp_path: Path) -> None:
    with pytest.raises(TuneError, match="1 job: too few"):
        tune(read_history(record(tmp_path / "a", trace((0, 1, 5)))), "mean_wait")
