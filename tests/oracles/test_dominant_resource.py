"""Dominant resource fairness in trees of any depth, against a computation from scratch and against all divisions.

Sources: Ghodsi et al., NSDI 2011 (flat), Bhattacharya et al., SoCC 2013 (the tree: a group counts as if each of its
children that have anything had no more than the one that has least).
"""

from itertools import pairwise, product

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import World, group, node, spec

from gangline_core.groups import ROOT, user_key
from gangline_core.ordering import order

PATHS = ("a", "a/x", "a/x/1", "a/x/2", "a/y", "b", "b/z", "c")
USERS = ("ada", "bob")
TOTAL = (8_000, 32_000, 65_536)
CLOSE = 3e-6
"""Shares are compared to a millionth; closer ones are equal, and equals go by age."""

Vector = tuple[float, float, float]


class Scratch:
    """Whoever holds what, and every share worked out anew whenever it is asked for."""

    def __init__(self, weights: dict[str, int]) -> None:
        self.weights = weights
        self.held: dict[str, list[int]] = {}
        """Per user of a group."""
        self.queues: dict[str, list[int]] = {}

    def children(self, name: str, leaves: list[str]) -> list[str]:
        """Branches right below one, of those that lead to these leaves."""
        found = set()
        for leaf in leaves:
            chain = chain_of(leaf)
            if name in chain[:-1]:
                found.add(chain[chain.index(name) + 1])
        return sorted(found)

    def counted(self, name: str) -> Vector:
        """What a branch counts for the one above it, as parts of the whole."""
        if ":" in name:
            held = self.held.get(name, [0, 0, 0])
            return held[0] / TOTAL[0], held[1] / TOTAL[1], held[2] / TOTAL[2]
        vectors = [vector for child in self.children(name, list(self.held)) if max(vector := self.counted(child)) > 0]
        if len(vectors) < 2:
            return vectors[0] if vectors else (0.0, 0.0, 0.0)
        least = min(max(vector) for vector in vectors)
        sums = [sum(vector[k] * least / max(vector) for vector in vectors) for k in range(3)]
        return (sums[0], sums[1], sums[2])

    def check_turn(self, leaf: str) -> None:
        """At each level nobody with something to start has less than the branch that leads to this user."""
        waiting = [one for one, jobs in self.queues.items() if jobs]
        for above, taken in pairwise(chain_of(leaf)):
            shares = {child: self.share(child) for child in self.children(above, waiting)}
            assert shares[taken] <= min(shares.values()) + CLOSE, (leaf, shares)

    def share(self, name: str) -> float:
        return max(self.counted(name)) / self.weights.get(name, 1)


def chain_of(leaf: str) -> list[str]:
    """The branches from the root to a user."""
    path = leaf.partition(":")[0]
    parts = path.split("/")
    return [ROOT, *("/".join(parts[: k + 1]) for k in range(len(parts))), leaf]


def amounts(job) -> tuple[int, int, int]:
    need = job.spec.roles[0].resources
    return need.gpu_milli, need.cpu_milli, need.memory_mib


JOBS = st.tuples(
    st.integers(0, 2), st.integers(1, 6), st.integers(1, 6), st.sampled_from(PATHS), st.sampled_from(USERS)
)


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.integers(1, 3), min_size=len(PATHS), max_size=len(PATHS)),
    running=st.lists(JOBS, max_size=4),
    waiting=st.lists(JOBS, min_size=2, max_size=14),
)
def test_whose_turn_it_is_equals_a_computation_from_scratch_in_any_tree(weights, running, waiting):
    weighed = dict(zip(PATHS, weights, strict=True))
    world = World(node(gpus=8, cpus=32, memory_mib=65_536), groups=[group(p, weight=w) for p, w in weighed.items()])
    world.set_policy(ordering="dominant_resource")
    scratch = Scratch(weighed)
    for asked in running:
        job = world.job(world.submit_running(ask(*asked), "n1"))
        hold(scratch, job)
    for asked in waiting:
        job = world.job(world.submit(ask(*asked)))
        leaf = user_key(job.spec.group, job.spec.user)
        scratch.queues.setdefault(leaf, []).append(job.id)
    ordered = order(world.state, world.state.kept.pools["default"], world.waiting(), world.at)
    for candidate in ordered.candidates:
        job = world.job(candidate.job)
        leaf = user_key(job.spec.group, job.spec.user)
        scratch.check_turn(leaf)
        assert scratch.queues[leaf].pop(0) == job.id, "a user's own jobs go by age"
        hold(scratch, job)
    assert not any(scratch.queues.values())


def hold(scratch: Scratch, job) -> None:
    held = scratch.held.setdefault(user_key(job.spec.group, job.spec.user), [0, 0, 0])
    for k, amount in enumerate(amounts(job)):
        held[k] += amount


def ask(gpus, cpus, gib, path, user):
    return spec(gpus=gpus, cpus=cpus, memory_mib=1024 * gib, group=path, user=user)


NEEDS = st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(0, 3)).filter(any)


@settings(max_examples=60, deadline=None)
@given(needs=st.lists(NEEDS, min_size=2, max_size=3))
def test_no_other_division_gives_the_poorest_a_larger_dominant_share(needs):
    """Flat, all divisions of small tasks tried: whoever is worst off could not be better off by more than a task."""
    world = World(node(gpus=8, cpus=12, memory_mib=10 * 1024), groups=[group(f"g{k}") for k in range(len(needs))])
    world.set_policy(ordering="dominant_resource")
    whole = (8, 12, 10)
    for k, (gpus, cpus, gib) in enumerate(needs):
        for _ in range(13):
            world.submit(gpus=gpus, cpus=cpus, memory_mib=1024 * gib, group=f"g{k}")
    ordered = order(world.state, world.state.kept.pools["default"], world.waiting(), world.at)
    left, tasks = list(whole), [0] * len(needs)
    for candidate in ordered.candidates:
        k = int(world.job(candidate.job).spec.group[1:])
        if any(asked > free for asked, free in zip(needs[k], left, strict=True)):
            break
        left = [free - asked for asked, free in zip(needs[k], left, strict=True)]
        tasks[k] += 1
    per_task = [max(asked / there for asked, there in zip(need, whole, strict=True)) for need in needs]
    mine = min(count * share for count, share in zip(tasks, per_task, strict=True))
    best = max(
        min(count * share for count, share in zip(counts, per_task, strict=True))
        for counts in product(range(13), repeat=len(needs))
        if all(
            sum(count * need[k] for count, need in zip(counts, needs, strict=True)) <= whole[k]
            for k in range(len(whole))
        )
    )
    assert best - mine <= max(per_task) + 1e-9
