"""Stories that once failed, each named after what it proves, some seeds that are always played, and some new ones."""

import subprocess
from functools import reduce
from operator import xor
from pathlib import Path

import pytest

from dollhouse.plan import Event, Plan, decode_plan, encode_plan, tell
from dollhouse.play import Outcome, play
from dollhouse.shrink import shrink
from dollhouse.wider import draw_plan

STORIES = sorted((Path(__file__).parent / "stories").glob("*.json"))
SEEDS = (
    *(2, 8, 16, 29, 36, 1_600_001, 777_000_005, 1_150_000_026),
    *(2_149_400_939, 2_600_000_014, 2_727_425_515, 2_727_425_516, 2_900_000_005, 4_000_000_049, 4_000_000_055),
)
"""Short ones that met a fault once, or hold what most others do not."""
NEW = 2
"""Seeds that change with the code: the tests look further each time, and what is red once is red again."""
CODE = ("libs", "services", "tools/dollhouse")
ROOT = Path(__file__).resolve().parents[2]


def prove(plan: Plan) -> None:
    outcome = play(plan)
    assert not outcome.faults, f"{tell(plan)}\n-> {outcome.faults}"


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_a_story_that_once_failed_ends_well(story: Path) -> None:
    prove(decode_plan(story.read_bytes()))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_ends_well(seed: int) -> None:
    prove(draw_plan(seed))


@pytest.mark.parametrize("turn", range(NEW))
def test_a_new_seed_ends_well(turn: int) -> None:
    prove(draw_plan(1_000_000 + seed_of_code() + turn))


def seed_of_code() -> int:
    """A number of 32 bits from the code that is checked out, whatever its commit is called; 0 where there is none."""
    command = ["git", "rev-parse", *(f"HEAD:{folder}" for folder in CODE)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    trees = told.stdout.split() if told.returncode == 0 else []
    return reduce(xor, (int(tree[:8], 16) for tree in trees), 0)


def test_the_same_seed_is_the_same_run() -> None:
    assert play(draw_plan(2)) == play(draw_plan(2))
    assert draw_plan(3) == decode_plan(encode_plan(draw_plan(3)))


def test_a_failing_run_is_shrunk_to_what_makes_it_fail() -> None:
    plan = draw_plan(11)
    guilty = plan.events[len(plan.events) // 2]

    def fails_with_it(candidate: Plan) -> Outcome:
        return Outcome(faults=("it is there",) if guilty in candidate.events else ())

    shortest = shrink(plan, fails_with_it)
    assert len(shortest.events) == 1
    assert isinstance(shortest.events[0], Event)
    assert shortest.copies == 1
