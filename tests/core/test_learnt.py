"""A learnt model is walked safely and alike everywhere, and what it foretells goes into order, dates and the log."""

import base64
import zlib

import pytest
from msgspec.structs import replace
from tests.make import HOUR, World, job, node, spec

from gangline_core import cycle
from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.foresight.learnt import (
    FEATURES,
    FINE,
    QUANTILES,
    Model,
    ModelError,
    Tree,
    features,
    foretold,
    packed,
    power,
    unpacked,
)
from gangline_core.foresight.run_times import RunTimes
from gangline_core.settings import check_policy
from gangline_core.state import State

GPU_MILLI = FEATURES.index("gpu_milli")
USER = FEATURES.index("user")
MINUTE_IN = 15.873 * FINE
"""A minute in thousandths of a doubling of ms."""


def by_user(*, quick: str = "quick") -> Model:
    """Jobs of one user run for a minute, those of others for four hours; the quantiles lie a doubling apart."""
    tree = Tree(feature=(USER, -1, -1), bound=(-1, round(7.9 * FINE), 0), right=(2, 0, 0))
    quantiles = tuple((round(MINUTE_IN) + (k - 2) * FINE, (tree,)) for k in range(len(QUANTILES)))
    return Model(made_of="tests", names={"user": {quick: 0}}, heads={"run": quantiles})


def learnt(model: Model, **fields: object) -> Policy:
    return replace(Policy(ordering="shortest_predicted", predictor="learnt", model=packed(model)), **fields)


def taught(policy: Policy) -> World:
    world = World(node("n1", gpus=1))
    give(world, policy)
    return world


def give(world: World, policy: Policy) -> None:
    world.tell("admission", f.PolicySet(pool="default", policy=policy, by="root"))


def test_a_model_comes_back_out_of_its_text_as_it_was() -> None:
    assert unpacked(packed(by_user())) == by_user()


def test_powers_of_two_are_whole_numbers_and_bounded() -> None:
    assert [power(k * FINE) for k in (0, 1, 10)] == [0, 1, 1023]
    assert power(-5) == 0
    assert power(10**9) == (1 << 50) - 1


def test_quantiles_never_fall() -> None:
    model = replace(by_user(), heads={"run": tuple((base, ()) for base in (9_000, 8_000, 10_000, 10_000, 7_000))})
    found = foretold(model, "run", (0,) * len(FEATURES))
    assert list(found) == sorted(found)


def test_there_is_a_number_for_every_feature() -> None:
    assert len(features(by_user(), {}, spec(gpus=2), 0)) == len(FEATURES)
    assert features(by_user(), {}, spec(gpus=2), 0)[GPU_MILLI] == 2000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no base64!",
        base64.b64encode(b"no zip").decode(),
        base64.b64encode(zlib.compress(b"[]")).decode(),
        base64.b64encode(zlib.compress(b" " * 8_000_000)).decode(),
        packed(replace(by_user(), v=2)),
        packed(replace(by_user(), heads={})),
        packed(replace(by_user(), heads={"run": ()})),
        packed(replace(by_user(), heads={"run": ((0, (Tree((0, -1), (0, 0), (0, 0)),)),) * 5})),
        packed(replace(by_user(), heads={"run": ((0, (Tree((99, -1, -1), (0, 0, 0), (2, 0, 0)),)),) * 5})),
        packed(replace(by_user(), heads={"run": ((0, (Tree((-1,), (), (0,)),)),) * 5})),
    ],
)
def test_a_text_that_is_no_model_is_refused_before_any_round_meets_it(text: str) -> None:
    with pytest.raises(ModelError):
        unpacked(text)
    problem = check_policy(State(), Policy(predictor="learnt", model=text))
    assert problem is not None
    assert problem.field == "model"


def test_what_is_foretold_enters_the_job_and_orders_the_queue() -> None:
    world = taught(learnt(by_user()))
    slow, quick = world.submit(spec(user="slow")), world.submit(spec(user="quick"))
    kept = world.state.kept.jobs
    assert kept[quick].learnt_ms[2] == pytest.approx(60_000, rel=0.01)
    assert kept[slow].learnt_ms[2] == pytest.approx(4 * HOUR, rel=0.05)
    opened = cycle.open_round(world.state, "default", world.at)
    assert opened is not None
    assert [candidate.job for candidate in opened.candidates] == [quick, slow]


def test_without_the_predictor_nothing_is_foretold() -> None:
    world = taught(replace(learnt(by_user()), predictor="rolling"))
    assert world.state.kept.jobs[world.submit(spec(user="quick"))].learnt_ms == ()


def test_jobs_that_wait_are_foretold_when_the_model_comes_and_forgotten_when_it_goes() -> None:
    world = World(node("n1", gpus=1))
    waiting = world.submit(spec(user="quick"))
    give(world, learnt(by_user()))
    assert world.state.kept.jobs[waiting].learnt_ms[2] == pytest.approx(60_000, rel=0.01)
    give(world, Policy())
    assert world.state.kept.jobs[waiting].learnt_ms == ()


def test_dates_rest_on_what_was_foretold() -> None:
    """Expected ends, which reservations, backfill and expected starts are made of, take the model's quantiles."""
    world = taught(learnt(by_user()))
    known = world.state.kept.jobs[world.submit(spec(user="quick"))]
    span = RunTimes(world.state, "default").whole(known)
    assert span is not None
    assert (span.soonest_ms, span.latest_ms) == (known.learnt_ms[1], known.learnt_ms[4])
    unknown = RunTimes(world.state, "default").whole(job(spec(user="quick")))
    assert unknown is None


def test_a_job_behind_a_reservation_passes_if_it_is_foretold_to_end_in_time() -> None:
    """The wide job has a date when the long one ends; only who is foretold to be gone by then may pass it."""
    world = World(node("n1", gpus=2))
    policy = learnt(by_user(), ordering="fifo", preemption=False)
    give(world, policy)
    world.run(world.submit(spec(user="slow", gpus=1)), "n1")
    world.wait(600)
    wide = world.submit(spec(user="slow", gpus=2))
    late = world.submit(spec(user="slow", gpus=1))
    soon = world.submit(spec(user="quick", gpus=1))
    world.round()
    states = {name: world.state.kept.jobs[one].state for name, one in (("wide", wide), ("late", late), ("soon", soon))}
    assert states == {"wide": "waiting", "late": "waiting", "soon": "starting"}
