"""What the simulated world is like beside its jobs and machines: costs, failures, speeds, errors of estimates."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(ge=0, le=1e9)]
WholeSeconds = Annotated[int, Meta(ge=0, le=10**9)]
Part = Annotated[float, Meta(gt=0, le=1)]
"""Of a speed; 0 would never end."""
Serial = Annotated[float, Meta(ge=0, le=1)]
Spread = Annotated[float, Meta(ge=0, le=10)]
Hours = Annotated[float, Meta(ge=0, le=1e9)]
Price = Annotated[float, Meta(ge=0, le=1_000)]


class Failures(Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that fail at random (exponential times) and come back after their repair."""

    node_mtbf_hours: Hours = 0.0
    """Mean time between failures of one node; 0 means that none fails."""
    repair_s: WholeSeconds = 3_600


class Colocation(Struct, frozen=True, forbid_unknown_fields=True):
    """How fast jobs go beside others, as parts of their speed alone."""

    shared_gpu: Part = 1.0
    """Speed of a job one of whose GPUs is shared with another job."""
    distributed: Part = 1.0
    """Speed of a job on several nodes, one of which carries another job on several nodes."""
    stages: bool = False
    """Jobs that share all of their GPUs interleave their stages, if they say how long these take (Muri, SIGCOMM 2022):
    their speed follows from that instead of `shared_gpu`."""
    contended: bool = False
    """Jobs that share all of their GPUs use the resources of their stages side by side, each at its own pace, if they
    say how long these take: where they ask for more than all of one, all slow down alike. It goes before `stages`."""


class Elastic(Struct, frozen=True, forbid_unknown_fields=True):
    """How the speed of an elastic job follows its size when no table says it, and which jobs of a trace are elastic."""

    serial: Serial = 0.0
    """Amdahl's serial part: 0 is linear speed-up, 0.1 can never be faster than ten times one task."""
    least: Part = 1.0
    """Smallest size of a job of whole GPUs, as a part of the size it asks for; below 1 its tasks have one GPU each."""
    most: Annotated[float, Meta(ge=1, le=1000)] = 1.0
    """Largest size, likewise; both at 1 leave every job as its trace has it."""


class Conditions(Struct, frozen=True, forbid_unknown_fields=True):
    """All of it; the defaults are a perfect world in which stopping and starting cost nothing."""

    round_s: WholeSeconds = 0
    """Rounds only at multiples of this time; 0 decides at every event."""
    start_s: Seconds = 0.0
    """What every first start costs before work begins: image, data, processes."""
    restart_s: Seconds = 0.0
    """What every later start and every change of size costs."""
    free_start_s: Seconds = 0.0
    """Both cost nothing where what is left to do takes less than this, as in Shockwave's simulator."""
    resume_s: Seconds = 0.0
    """What it costs a paused job to go on where it stood still."""
    stop_s: Seconds = 0.0
    """How long a job that is told to stop still holds its GPUs."""
    checkpoint_s: WholeSeconds = 0
    """A checkpoint after so much run time; 0 makes none on the way. A failure loses what came after the last one."""
    checkpoint_at_stop: bool = True
    """A job that is told to stop keeps all of its work, whatever it says; otherwise that is lost as in a failure, but
    not by jobs that say `checkpoints`."""
    failures: Failures = Failures()
    colocation: Colocation = Colocation()
    elastic: Elastic = Elastic()
    estimates: Literal["given", "true", "none", "philly", "lognormal", "present"] = "given"
    """What jobs say about their duration: what the trace has, the truth, nothing, the truth with an error (Philly's
    error quantiles, Hu et al., SC 2021, or a log-normal factor), or what their present batch size would take, told
    anew whenever it changes."""
    estimate_sigma: Spread = 1.0
    """Spread of the log-normal factor."""
    limits: bool = False
    """Whether estimates are given as time limits as well (twice the estimate, never below the true run time), which
    backfilling can rely on."""
    single_gpus: bool = False
    """Whether GPUs are only counted: every job of whole GPUs becomes tasks of one GPU that may stand anywhere."""
    memory_most_mib: Annotated[int, Meta(ge=0, le=10**7)] = 0
    """Jobs of whole GPUs say that they use no more of the memory of each; 0 has them say nothing, so that they take all
    of it."""
    opportunistic: bool = False
    """Whether jobs with the attribute `opportunistic` are so: they run on what others leave."""
    tells_speeds: bool = False
    """Whether jobs say how fast they go on every GPU model (attributes `speed_<model>`), where a table knows it."""
    tells_checkpoints: bool = False
    """Whether all jobs say that they go on where they stopped (`checkpoints`), and do."""
    prices: dict[str, Price] = {}
    """The platform's price list: GPU-hours of budget that an hour of each GPU model costs, `"*"` for any other."""


def in_milli(prices: Mapping[str, float]) -> dict[str, int]:
    """A price list in thousandths, as the platform keeps it."""
    return {model.lower(): round(1000 * price) for model, price in sorted(prices.items())}
