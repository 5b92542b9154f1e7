"""Jobs that interleave their stages: how long an iteration takes, who is put together, and how companies come about."""

from functools import cache
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import spec

from gangline_core.ids import JobId
from gangline_core.sharing.blossom import matched
from gangline_core.sharing.interleaving import Sharer, companies
from gangline_core.sharing.matching import MATCHED_MAX, best_pairs
from gangline_core.sharing.stages import (
    COST_PERMILLE,
    Stages,
    efficiency_micro,
    iteration_us,
    speed_permille,
    stages_of,
)

LOADS = Stages(loading_us=400, compute_us=100, network_us=100, iteration_us=600)
COMPUTES = Stages(loading_us=100, compute_us=400, network_us=100, iteration_us=600)
TALKS = Stages(loading_us=100, compute_us=100, network_us=400, iteration_us=600)
BOTH = COST_PERMILLE[1]
stage = st.integers(0, 50)
profile = st.builds(lambda a, b, c: Stages(a, b, c, a + b + c), stage.map(lambda x: x + 1), stage, stage)


# --- how long an iteration takes ------------------------------------------------------------------------


def test_two_jobs_with_other_longest_stages_take_little_longer_than_one() -> None:
    # One reads (400) while the other computes (400), then each goes through its two short stages (100 and 100).
    assert iteration_us([LOADS, COMPUTES]) == (400 + 100 + 100) * BOTH // 1000


def test_two_jobs_with_the_same_longest_stage_take_it_twice() -> None:
    # Computing follows computing; the second exchanges while nobody computes.
    assert iteration_us([COMPUTES, COMPUTES]) == (400 + 400 + 100) * BOTH // 1000
    assert speed_permille(COMPUTES, [COMPUTES, COMPUTES]) == 1000 * 600 // (900 * BOTH // 1000)


def test_alone_it_takes_what_it_says_even_where_its_stages_overlap() -> None:
    overlaps = Stages(loading_us=500, compute_us=300, network_us=0, iteration_us=600)
    assert iteration_us([overlaps]) == 600
    assert speed_permille(overlaps, [overlaps]) == 1000


def simulated_us(begin: dict[int, Stages]) -> int:
    """Slots played one after the other until rounds are of one length, as the artefact does it."""
    ends = [0] * (4 * 60 + 1)
    for slot in range(4 * 60):
        latest = ends[slot]
        for k, one in begin.items():
            if (slot - k) % 4 == 2:
                latest = max(latest, ends[slot] + one.compute_us)
            elif (slot - k) % 4 == 3:
                latest = max(latest, ends[slot] + one.network_us)
            elif (slot - k) % 4 == 1 and slot:
                latest = max(latest, ends[slot - 1] + one.loading_us)
        ends[slot + 1] = latest
    return (ends[-1] - ends[-1 - 4 * 12]) // 12


@given(st.lists(profile, min_size=2, max_size=4))
@settings(deadline=None)
def test_a_round_is_the_shortest_that_playing_it_slot_by_slot_comes_to(company: list[Stages]) -> None:
    orders = permutations(range(4), len(company))
    shortest = min(simulated_us(dict(zip(order, company, strict=True))) for order in orders)
    assert iteration_us(company) == shortest * COST_PERMILLE[len(company) - 1] // 1000


def test_who_does_not_tell_of_its_stages_or_talks_nonsense_has_none() -> None:
    told = {"loading_ms": 0.5, "compute_ms": 163, "network_ms": 18, "iteration_ms": 190}
    assert stages_of(spec(attributes=told)) == Stages(500, 163_000, 18_000, 190_000)
    for wrong in ({"compute_ms": -1}, {"compute_ms": "much"}, {"iteration_ms": 0}, {"network_ms": True}):
        assert stages_of(spec(attributes={**told, **wrong})) is None
    assert stages_of(spec()) is None


# --- matching -------------------------------------------------------------------------------------------


def brute_force(weights: list[list[int]]) -> int:
    @cache
    def best(left: frozenset[int]) -> int:
        if not left:
            return 0
        one = min(left)
        rest = left - {one}
        pairs = (weights[one][other] + best(rest - {other}) for other in rest if weights[one][other] > 0)
        return max(best(rest), *pairs, 0)

    return best(frozenset(range(len(weights))))


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    size = draw(st.integers(0, 9))
    most = draw(st.sampled_from([1, 3, 50, 10**6]))
    weights = [[0] * size for _ in range(size)]
    for one, other in combinations(range(size), 2):
        weights[one][other] = weights[other][one] = draw(st.integers(0, most))
    return weights


@given(graphs())
@settings(deadline=None, max_examples=300)
def test_a_matching_weighs_as_much_as_the_best_of_all_that_there_are(weights: list[list[int]]) -> None:
    mates = matched(weights)
    pairs = [(one, other) for one, other in enumerate(mates) if one < other]
    assert all(mates[other] == one for one, other in pairs)
    assert all(weights[one][other] > 0 for one, other in pairs)
    assert sum(weights[one][other] for one, other in pairs) == brute_force(weights)


def test_a_heavy_edge_between_two_odd_cycles_is_found_through_both() -> None:
    weights = [[0] * 6 for _ in range(6)]
    for one, other, weight in [(0, 1, 8), (1, 2, 8), (0, 2, 8), (3, 4, 8), (4, 5, 8), (3, 5, 8), (2, 3, 1)]:
        weights[one][other] = weights[other][one] = weight
    mates = matched(weights)
    assert sum(weights[one][other] for one, other in enumerate(mates) if one < other) == 17


def test_of_alike_things_only_how_many_pairs_matters() -> None:
    assert best_pairs([3, 2], {(0, 0): 5, (0, 1): 4, (1, 1): 1}) == {(0, 0): 1, (0, 1): 1}
    assert best_pairs([3, 2], {(0, 0): 1, (0, 1): 4}) == {(0, 1): 2}
    assert best_pairs([1], {(0, 0): 5}) == {}


def test_more_than_can_be_matched_in_time_are_refused() -> None:
    with pytest.raises(ValueError, match="match parts of them"):
        best_pairs([MATCHED_MAX, 1], {(0, 1): 1})


# --- companies ------------------------------------------------------------------------------------------


def sharer(job: int, stages: Stages | None, gpus: int = 1, *, place: int = 0, memory_mib: int = 1) -> Sharer:
    return Sharer(JobId(job), gpus, gpus if stages else job, stages, memory_mib=memory_mib, place=place)


def test_nobody_shares_while_there_is_room_for_all() -> None:
    assert companies([sharer(1, LOADS), sharer(2, COMPUTES)], gpus=2, card_mib=9) == [(1,), (2,)]


def test_those_that_interleave_best_are_put_together_and_no_more_than_are_needed() -> None:
    jobs = [sharer(1, LOADS), sharer(2, LOADS), sharer(3, COMPUTES), sharer(4, COMPUTES)]
    assert companies(jobs, gpus=2, card_mib=9) == [(1, 3), (2, 4)]
    assert sorted(map(len, companies(jobs, gpus=3, card_mib=9))) == [1, 1, 2]


def test_at_most_four_share_and_who_comes_after_them_waits() -> None:
    jobs = [sharer(k, (LOADS, COMPUTES, TALKS)[k % 3]) for k in range(1, 7)]
    assert companies(jobs, gpus=1, card_mib=9) == [(1, 2, 3, 4)]


def test_jobs_of_other_sizes_and_those_without_stages_have_gpus_of_their_own() -> None:
    jobs = [sharer(1, LOADS), sharer(2, COMPUTES, gpus=2), sharer(3, None), sharer(4, COMPUTES)]
    assert companies(jobs, gpus=4, card_mib=9) == [(1, 4), (2,), (3,)]


def test_what_does_not_fit_in_the_memory_of_a_gpu_is_not_put_together() -> None:
    jobs = [sharer(1, LOADS, memory_mib=6), sharer(2, COMPUTES, memory_mib=6), sharer(3, LOADS, memory_mib=3)]
    assert companies(jobs, gpus=2, card_mib=9) == [(1,), (2, 3)]


def test_whoever_shares_already_goes_on_where_that_is_as_good() -> None:
    jobs = [
        sharer(1, LOADS, place=1),
        sharer(2, LOADS, place=2),
        sharer(3, COMPUTES, place=2),
        sharer(4, COMPUTES, place=1),
    ]
    assert companies(jobs, gpus=2, card_mib=9) == [(1, 4), (2, 3)]


def test_of_very_many_those_next_to_each_other_in_the_order_are_matched() -> None:
    jobs = [sharer(k, (LOADS, COMPUTES)[k % 2]) for k in range(1, 2 * MATCHED_MAX + 2)]
    found = companies(jobs, gpus=MATCHED_MAX + 1, card_mib=9)
    assert len(found) == MATCHED_MAX + 1
    assert {job for company in found for job in company} == {one.job for one in jobs}
    assert all({job % 2 for job in company} == {0, 1} for company in found if len(company) == 2)
    assert all((company[0] <= MATCHED_MAX) == (company[-1] <= MATCHED_MAX) for company in found)


@given(st.lists(st.tuples(st.sampled_from([1, 2, 4, 8]), profile), max_size=16), st.integers(1, 16))
@settings(deadline=None)
def test_companies_are_of_one_size_and_nobody_is_in_two(jobs: list[tuple[int, Stages]], gpus: int) -> None:
    sharers = [sharer(k, stages, wanted) for k, (wanted, stages) in enumerate(jobs, start=1)]
    found = companies(sharers, gpus=gpus, card_mib=99)
    members = [job for company in found for job in company]
    assert len(members) == len(set(members))
    assert all(len({jobs[job - 1][0] for job in company}) == 1 and len(company) <= 4 for company in found)
    assert [company[0] for company in found] == sorted(company[0] for company in found)


def test_efficiency_is_the_part_of_the_time_in_which_resources_are_busy() -> None:
    assert efficiency_micro((COMPUTES,)) == 1_000_000 * 600 // (4 * 600)
    assert efficiency_micro((LOADS, COMPUTES)) == 1_000_000 * 1200 // (4 * (600 * BOTH // 1000))
    assert efficiency_micro((LOADS, COMPUTES)) > efficiency_micro((COMPUTES, COMPUTES))
