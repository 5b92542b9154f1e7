"""A predictor learns offline from what came before, is scored on what came after, and its runs replay."""

from functools import lru_cache
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from tests.lab.logged import LoggedWorld
from tests.lab.simulated import prove_archive
from tests.make import node, spec

from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.foresight.learnt import ModelError, features, foretold, unpacked
from gangline_core.ids import JobId
from gangline_lab import philly
from gangline_lab.cli import main
from gangline_lab.learning.growing import Growth, LearningError, features_of
from gangline_lab.learning.modelfile import ModelFile, read_model, train, unseen
from gangline_lab.learning.samples import Record, Sample, of_archive, of_trace, samples
from gangline_lab.learning.score import Score
from gangline_lab.policyfile import PolicyFileError, read_policy
from gangline_lab.readers import read_trace
from gangline_lab.replay import replay
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.engine import BEGIN_MS, Scenario, simulate
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.workload import Workload, cut
from gangline_wire.codec import encode

SMALL = Growth(trees=12, leaves=8)


@lru_cache(maxsize=1)
def weeks() -> Workload:
    return read_trace(f"philly:{philly.JOB_LIST}")


@lru_cache(maxsize=1)
def rows() -> tuple[Sample, ...]:
    return tuple(samples(of_trace(weeks(), Conditions(estimates="none"))))


@lru_cache(maxsize=1)
def model_file() -> ModelFile:
    return train(rows(), made_of="philly", growth=SMALL)


def own(file: ModelFile) -> dict[str, Score]:
    return {score.predictor: score for score in file.scores if score.head == "run"}


def test_on_held_out_days_of_philly_the_learnt_predictor_beats_means_and_medians_by_user() -> None:
    found = own(model_file())
    assert found["learnt"].pinball < min(found[rule].pinball for rule in ("rolling", "mean by user", "median by user"))
    assert found["learnt"].rank > max(found["mean by user"].rank, found["median by user"].rank)
    assert found["learnt"].error_mean < min(found["mean by user"].error_mean, found["rolling"].error_mean)


def test_about_four_of_five_held_out_jobs_end_inside_the_stated_range() -> None:
    assert 0.6 < own(model_file())["learnt"].coverage < 0.98


def test_the_same_history_gives_the_same_model_to_the_byte() -> None:
    assert encode(train(rows(), made_of="philly", growth=SMALL)) == encode(model_file())


def test_no_row_knows_what_had_not_ended_when_it_came() -> None:
    """The second job comes while the first one runs: it knows of none. The third comes later and knows both."""
    asked = spec(user="ada")
    records = [
        Record(at_ms=BEGIN_MS, ended_ms=BEGIN_MS + 10_000, run_ms=10_000, spec=asked),
        Record(at_ms=BEGIN_MS + 5_000, ended_ms=BEGIN_MS + 9_000, run_ms=4_000, spec=asked),
        Record(at_ms=BEGIN_MS + 20_000, ended_ms=BEGIN_MS + 21_000, run_ms=1_000, spec=asked),
    ]
    first, second, third = samples(records)
    assert first.rivals_ms == second.rivals_ms == {}
    assert third.rivals_ms["mean by user"] == 7_000


def test_training_and_the_fold_see_the_same_features() -> None:
    """What a row had is what the fold works out at the same submission, so that a score tells of production."""
    trace = cut(weeks(), jobs=120)
    model = unpacked(model_file().model)
    world = LoggedWorld(node("n1", gpus=1))
    for one, row in zip(trace.arrivals[:3], samples(of_trace(trace, Conditions(estimates="none")))[:3], strict=True):
        asked = replace(one.spec, estimate_s=0)
        seen = features(model, world.state.kept.history, asked, BEGIN_MS + one.at_ms)
        assert seen == features_of(model.names, row)
        assert len(foretold(model, "run", seen)) == 5


def test_a_run_under_a_learnt_policy_replays_to_the_byte(tmp_path: Path) -> None:
    policy = Policy(ordering="shortest_predicted", predictor="learnt", model=model_file().model)
    scenario = Scenario(
        trace=cut(weeks(), first=600, jobs=60),
        fleet=read_fleet("1x8xV100"),
        policies={"default": policy},
        conditions=Conditions(estimates="none"),
    )
    result = simulate(scenario, archive=tmp_path / "archive")
    assert len([job for job in result.jobs if job.ended_ms >= 0]) == 60 - result.rejected
    prove_archive(tmp_path / "archive")
    assert replay(tmp_path / "archive").equal


def test_use_of_gpus_is_learnt_where_it_was_measured(tmp_path: Path) -> None:
    """One user's jobs keep their GPU busy, the other's do not: the heads of use tell them apart."""
    world, random = LoggedWorld(node("n1", gpus=8)), Random(3)
    for number in range(320):
        busy = number % 2 == 0
        job = world.submit(spec(user="busy" if busy else "idle", gpus=1))
        world.run(job, ("n1", (0,)))
        world.wait(60 + random.randrange(600))
        percent = (90 if busy else 10) + random.randrange(5)
        used = f.JobUsed(job=JobId(job), gpu_percent=percent, window_s=60, memory_mib_max=1000 * (1 + busy))
        world.tell("telemetry", used)
        world.finish(job)
    archive = world.write(tmp_path / "archive", segment_messages=500)
    learnt = samples(of_archive(archive))
    assert {"run", "gpu_percent", "memory_mib"} == set(learnt[0].came_to)
    file = train(learnt, made_of="test", growth=SMALL)
    model = unpacked(file.model)
    said = {
        dict(row.names)["user"]: foretold(model, "gpu_percent", features_of(model.names, row))[2] for row in learnt[-2:]
    }
    assert said["busy"] > 60
    assert said["idle"] < 40
    assert {score.head for score in file.scores} == {"run", "gpu_percent", "memory_mib"}


def test_too_few_jobs_teach_nothing() -> None:
    with pytest.raises(LearningError, match="too few"):
        train(rows()[:50], made_of="philly", growth=SMALL)


def test_the_commands_train_score_and_say_how_to_use_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "model.json"
    assert main(["train", f"philly:{philly.JOB_LIST}", "-o", str(out), "--trees", "3", "--leaves", "4"]) == 0
    told = capsys.readouterr().out
    assert "median by user" in told
    assert "model=@model.json" in told
    assert main(["score", str(out), f"philly:{philly.JOB_LIST}"]) == 0
    scored = capsys.readouterr()
    assert read_model(out).version in scored.out
    assert "are those that the model learnt from; left out" in scored.err
    page = tmp_path / "page.yaml"
    page.write_text('policy: {predictor: learnt, model: "@model.json"}\n', encoding="utf-8")
    assert read_policy(page).policies["default"].model == read_model(out).model
    page.write_text('policy: {predictor: learnt, model: "@nothing.json"}\n', encoding="utf-8")
    with pytest.raises(PolicyFileError, match=r"nothing\.json"):
        read_policy(page)


def test_a_model_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "model.json"
    out.write_bytes(encode(replace(model_file(), version="000000000000")))
    with pytest.raises(ModelError, match="was changed"):
        read_model(out)
    better = tuple(replace(score, rank=0.99) for score in model_file().scores)
    out.write_bytes(encode(replace(model_file(), scores=better)))
    with pytest.raises(ModelError, match="was changed"):
        read_model(out)
    out.write_bytes(encode(model_file()))
    assert read_model(out) == model_file()


def test_a_score_is_of_jobs_that_the_model_did_not_learn_from() -> None:
    file = model_file()
    assert len(unseen(file, rows(), "philly")) == file.jobs_held_out
    assert len(unseen(file, rows(), "another")) == len(rows())
