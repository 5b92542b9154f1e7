"""How long will a job run, and how much of its GPUs will it use? What a learnt model says, from facts of the log alone.

A model is a set of boosted regression trees, one per quantile, that `gangline lab train` grew offline. It stands whole,
as one text, in the pool's policy, and so in the log: whoever folds the log foretells the same, and a replay does too.
Everything is whole numbers: features are compared with whole bounds, leaves add up in thousandths of a doubling, and
the sum becomes a duration by a table, so that no machine's floating point can disagree with another's.

Features come from the job and from what is remembered of ended jobs (`foresight.history`) when it is submitted.
Source of the idea: QSSF of Helios (Hu et al., SC 2021), which blends such a model with a rolling mean of jobs alike.
"""

import base64
import zlib
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate

import msgspec
from msgspec import Struct

from gangline_core.foresight.history import classes, stem
from gangline_core.spec import JobSpec, gpu_milli_wanted, task_count

QUANTILES = (10, 25, 50, 75, 90)
"""Per cent of jobs like it that need no longer, for each number that a head foretells."""
MIDDLE = QUANTILES.index(50)
RUN = "run"
"""The head that foretells run times, in ms."""
HEADS = {RUN: "run time in ms", "gpu_percent": "how busy its GPUs are", "memory_mib": "most memory in use on one GPU"}
"""What a model may foretell -> what that is. A model has the heads for which its history had enough samples."""
FEATURE_MOST = 16_000_000
"""Larger numbers are cut: training sees them with 24 bits."""
UNKNOWN = -1
"""A feature of which nothing is known, and the code of a name that training did not meet."""
MODEL_CHARS_MAX = 400_000
MODEL_BYTES_MAX = 4_000_000
NODES_MAX = 200_000
FINE = 1_000
"""Leaves are in this part of a doubling."""
DOUBLINGS_MOST = 50
_STEPS = tuple(round(2 ** (step / FINE) * (1 << 20)) for step in range(FINE))
NAMED = ("group", "user", "stem", "kind", "field", "model")
"""What is looked up by name, in a table of the model; the last three are attributes of jobs."""
PLAIN = ("gpu_milli", "tasks", "hour", "weekday", "estimate_s", "limit_s", "priority")
LIKE = ("same name and size", "same user and size", "same group and size", "same group", "same size", "same pool")
OF_LIKE = ("count", "last", "rolling", "middle")
FEATURES = (*PLAIN, *NAMED, *(f"{what} of {who}" for who in LIKE for what in OF_LIKE))
"""Names of the features, in the order of their numbers; run times in seconds."""
RECENT = 16
"""So many of the last run times of a class are looked at."""


class ModelError(Exception):
    """A text that is no model."""


class Tree(Struct, frozen=True, array_like=True):
    """Nodes in the order of a walk that goes left first. The left child of a node is the next one."""

    feature: tuple[int, ...]
    """Number of the feature that is compared; -1 at a leaf."""
    bound: tuple[int, ...]
    """The largest value that goes left; at a leaf what it adds."""
    right: tuple[int, ...]
    """The right child."""


class Model(Struct, frozen=True):
    """What was learnt."""

    made_of: str
    """The history it was learnt from, in words."""
    names: dict[str, dict[str, int]]
    """Codes of names, by feature."""
    heads: dict[str, tuple[tuple[int, tuple[Tree, ...]], ...]]
    """Per head and quantile where the sum begins, and the trees that add to it."""
    v: int = 1


def packed(model: Model) -> str:
    """The model as one text; equal models give equal texts."""
    return base64.b64encode(zlib.compress(msgspec.json.encode(model, order="sorted"), 9)).decode()


@lru_cache(maxsize=8)
def unpacked(text: str) -> Model:
    """The model in a text.

    Raises:
        ModelError: it is none, or none that can be walked safely.
    """
    if len(text) > MODEL_CHARS_MAX:
        raise ModelError(f"is longer than {MODEL_CHARS_MAX} characters")
    try:
        unzip = zlib.decompressobj()
        raw = unzip.decompress(base64.b64decode(text, validate=True), MODEL_BYTES_MAX)
        if unzip.unconsumed_tail or not unzip.eof:
            raise ModelError("is too large or cut short")
        model = msgspec.json.decode(raw, type=Model)
    except (ValueError, zlib.error, msgspec.MsgspecError) as error:
        raise ModelError(f"is no model of gangline lab train ({error})") from error
    _check(model)
    return model


def version(text: str) -> str:
    """What a model is called in short: a hash of its text."""
    return blake2b(text.encode(), digest_size=6).hexdigest()


def _check(model: Model) -> None:
    """Every walk ends, and meets only features that there are."""
    if model.v != 1 or RUN not in model.heads:
        raise ModelError("foretells no run times, or is of a newer release")
    nodes = 0
    for head, quantiles in model.heads.items():
        if head not in HEADS or len(quantiles) != len(QUANTILES):
            raise ModelError(f"has a head {head!r} that is not known, or not {len(QUANTILES)} quantiles of it")
        for _, trees in quantiles:
            for tree in trees:
                nodes += len(tree.feature)
                _check_tree(tree)
    if nodes > NODES_MAX:
        raise ModelError(f"has more than {NODES_MAX} nodes")


def _check_tree(tree: Tree) -> None:
    size = len(tree.feature)
    if not size or len(tree.bound) != size or len(tree.right) != size:
        raise ModelError("has a tree of unequal columns")
    for place, feature in enumerate(tree.feature):
        is_inner = 0 <= feature < len(FEATURES) and place < tree.right[place] < size and place + 1 < size
        if feature != UNKNOWN and not is_inner:
            raise ModelError("has a tree that leads nowhere")


# --- foretelling ----------------------------------------------------------------------------------------------


def features(model: Model, history: Mapping[str, tuple[int, ...]], spec: JobSpec, at: int) -> tuple[int, ...]:
    """What the model looks at, in the order of FEATURES, for a job that is submitted now."""
    return (
        *plain(spec, at),
        *(model.names.get(one, {}).get(name, UNKNOWN) for one, name in named(spec)),
        *like(history, spec),
    )


def plain(spec: JobSpec, at: int) -> tuple[int, ...]:
    """What the job says of itself, and when."""
    hours = at // 3_600_000
    weekday = (hours // 24 + 3) % 7
    numbers = (gpu_milli_wanted(spec), task_count(spec), hours % 24, weekday, spec.estimate_s, spec.time_limit_s)
    return (*(min(number, FEATURE_MOST) for number in numbers), spec.priority)


def named(spec: JobSpec) -> tuple[tuple[str, str], ...]:
    """What is looked up by name."""
    said = (str(spec.attributes.get(name, "")) for name in NAMED[3:])
    return tuple(zip(NAMED, (spec.group, spec.user, stem(spec.name), *said), strict=True))


def like(history: Mapping[str, tuple[int, ...]], spec: JobSpec) -> tuple[int, ...]:
    """Of every class of jobs like it: how many are remembered, and the last, rolling and middle run time in s."""
    found: list[int] = []
    for name in classes(spec):
        samples = history.get(name, ())
        found += _of_samples(samples) if samples else (0, UNKNOWN, UNKNOWN, UNKNOWN)
    return tuple(found)


@lru_cache(maxsize=16_384)
def _of_samples(samples: tuple[int, ...]) -> tuple[int, int, int, int]:
    recent = samples[-RECENT:]
    rolling = list(accumulate(recent, lambda mean, sample: (7 * mean + 3 * sample) // 10))[-1]
    middle = sorted(recent)[len(recent) // 2]
    shown = (min(ms // 1000, FEATURE_MOST) for ms in (recent[-1], rolling, middle))
    return (len(samples), *shown)  # type: ignore[return-value]  # three numbers follow the first


def foretold(model: Model, head: str, values: tuple[int, ...]) -> tuple[int, ...]:
    """What a head says of a job with these features, a number per quantile, never falling; empty without the head."""
    sums = [base + sum(_leaf(tree, values) for tree in trees) for base, trees in model.heads.get(head, ())]
    return tuple(accumulate((power(value) for value in sums), max))


def _leaf(tree: Tree, values: tuple[int, ...]) -> int:
    feature, bound, right = tree.feature, tree.bound, tree.right
    place = 0
    while feature[place] >= 0:
        place = place + 1 if values[feature[place]] <= bound[place] else right[place]
    return bound[place]


def power(value: int) -> int:
    """Two to the power of so many thousandths, less one, never below 0."""
    whole, part = divmod(max(0, min(value, DOUBLINGS_MOST * FINE)), FINE)
    return (_STEPS[part] << whole >> 20) - 1


def run_ms(text: str, history: Mapping[str, tuple[int, ...]], spec: JobSpec, at: int) -> tuple[int, ...]:
    """How long a job that is submitted now will run, in ms by quantile, as the model in this text has it."""
    model = unpacked(text)
    return foretold(model, RUN, features(model, history, spec, at))
