"""What Gangline was asked to be, point by point: where each one lives, which test shows it, and what is missing."""

from enum import StrEnum

from msgspec import Struct


class Standing(StrEnum):
    """How far a point is."""

    HERE = "here"
    PARTLY = "partly"
    NOT_YET = "not yet"


class Point(Struct, frozen=True):
    """One thing that was asked for; `lives` and `shown_by` are paths, and a test checks that they exist."""

    id: str
    asked: str
    standing: Standing
    lives: tuple[str, ...] = ()
    shown_by: tuple[str, ...] = ()
    missing: str = ""


CORE = "libs/gangline_core"
KIT = "libs/gangline_kit"
WIRE = "libs/gangline_wire"
SERVICES = "services/gangline_"
HERE, PARTLY, NOT_YET = Standing.HERE, Standing.PARTLY, Standing.NOT_YET

SCHEDULER = (
    Point(
        id="S1",
        asked="One order for all submitted jobs, by a policy set beforehand, and each job sent where it runs",
        standing=HERE,
        lives=(f"{CORE}/cycle.py", f"{CORE}/ordering", f"{CORE}/placement", f"{SERVICES}queue", f"{SERVICES}placement"),
        shown_by=("tests/core/test_ordering.py", "tests/core/test_cycle.py"),
    ),
    Point(
        id="S2",
        asked="Queues with different priorities, re-ordered live, together with Kubernetes",
        standing=HERE,
        lives=(f"{CORE}/cluster.py", f"{CORE}/ordering", f"{CORE}/door/job_rights.py", f"{SERVICES}gateway/steer.py"),
        shown_by=(
            "tests/core/test_ordering.py",
            "tests/services/gateway/test_steer.py",
            "tests/kubernetes/test_adopted.py",
        ),
    ),
    Point(
        id="S3",
        asked="Policies the administrator chooses and changes, each with a formula that is computed anew all the time",
        standing=HERE,
        lives=(f"{CORE}/scoring/formula.py", f"{CORE}/settings/__init__.py", f"{SERVICES}gateway/policies.py"),
        shown_by=("tests/core/test_formula.py",),
    ),
    Point(
        id="S4",
        asked="Named factors, weighted into one number: levels, size, estimates, attributes, occupancy, interference",
        standing=HERE,
        lives=(f"{CORE}/scoring/factors.py", f"{CORE}/foresight/predict.py"),
        shown_by=("tests/core/test_ordering.py", "tests/core/test_surroundings.py"),
    ),
    Point(
        id="S5",
        asked="No starvation",
        standing=HERE,
        lives=(f"{CORE}/scoring/ageing.py", f"{CORE}/reserving/reserve.py", f"{CORE}/limits/dates.py"),
        shown_by=(
            "tests/core/test_no_starvation.py",
            "tests/core/test_backfill_modes.py",
            "tests/core/test_ordering.py",
        ),
    ),
    Point(
        id="S6",
        asked="What was stated is compared with what happened, and later decisions know",
        standing=HERE,
        lives=(
            f"{CORE}/foresight/predict.py",
            f"{CORE}/foresight/history.py",
            f"{CORE}/foresight/forecast.py",
            f"{CORE}/foresight/past_use.py",
        ),
        shown_by=("tests/core/test_outlook.py", "tests/core/test_past_use.py"),
    ),
    Point(
        id="S7",
        asked="The user learns why a job stands where it stands, and when it is expected to run",
        standing=HERE,
        lives=(f"{CORE}/reasons.py", f"{CORE}/telling/explain.py"),
        shown_by=("tests/core/test_explain.py",),
    ),
    Point(
        id="S8",
        asked="A Kubernetes controller for the whole life of a job",
        standing=PARTLY,
        lives=(f"{SERVICES}kubernetes", "helm/gangline", "docs/kubernetes.md"),
        shown_by=(
            "tests/kubernetes/test_whole_path.py",
            "tests/kubernetes/test_trouble.py",
            "tests/kubernetes/test_adopted.py",
            "tests/kubernetes/test_owners.py",
        ),
        missing="Shown on a double, not on a real server.",
    ),
)
USERS = (
    Point(
        id="U1",
        asked="Levels, totals and maxima of users and groups, set by the administrator",
        standing=HERE,
        lives=(f"{CORE}/groups.py", f"{CORE}/settings/__init__.py", f"{SERVICES}gateway/settings.py"),
        shown_by=("tests/core/test_quota.py", "tests/core/test_settings.py"),
    ),
    Point(
        id="U2",
        asked="An independent judge at the door; the scheduler sees only legal jobs",
        standing=HERE,
        lives=(f"{CORE}/door/admission.py", f"{SERVICES}admission"),
        shown_by=("tests/core/test_admission.py",),
    ),
    Point(
        id="U3",
        asked="Limits in two layers, group and user; the head assigns; the sum never passes the group's",
        standing=HERE,
        lives=(f"{CORE}/limits/quota.py", f"{CORE}/settings/__init__.py"),
        shown_by=("tests/core/test_quota.py", "tests/core/test_settings.py", "tests/cases/test_borrowing.py"),
    ),
    Point(
        id="U4",
        asked="Independent billing that watches use and adjusts limits",
        standing=HERE,
        lives=(f"{CORE}/limits/accounting.py", f"{CORE}/limits/budgets.py", f"{SERVICES}accounting"),
        shown_by=("tests/core/test_accounting.py", "tests/core/test_budgets.py"),
    ),
    Point(
        id="U5",
        asked="Users see occupancy and their jobs' scheduling, stop them and run them again",
        standing=HERE,
        lives=("libs/gangline_client", f"{SERVICES}gateway"),
        shown_by=("tests/client", "tests/services/gateway"),
    ),
    Point(
        id="U6",
        asked="What users do is logged as input to later scheduling",
        standing=HERE,
        lives=(f"{CORE}/facts/__init__.py", f"{SERVICES}recorder"),
        shown_by=("tests/services/recorder",),
    ),
)
RESOURCES = (
    Point(
        id="R1",
        asked="Logical domains of machines; nodes join and leave while everything runs",
        standing=HERE,
        lives=(f"{CORE}/cluster.py", f"{CORE}/facts/nodes.py", f"{SERVICES}agent"),
        shown_by=("tests/end_to_end/test_agent_join.py", "tests/core/test_fold.py"),
    ),
    Point(
        id="R2",
        asked="Per node, live: CPU, GPUs, their memory and use, other devices",
        standing=HERE,
        lives=(f"{SERVICES}agent", f"{SERVICES}telemetry", f"{SERVICES}gateway/machines.py"),
        shown_by=("tests/services/telemetry",),
    ),
    Point(
        id="R3",
        asked="Which job occupies what now; every allocation and change recorded",
        standing=HERE,
        lives=(f"{CORE}/state.py", f"{CORE}/facts/__init__.py"),
        shown_by=("tests/services/recorder",),
    ),
    Point(
        id="R4",
        asked="Pooling: GPUs of several machines for one job, remote GPUs, shares of one GPU",
        standing=HERE,
        lives=(
            f"{CORE}/placement",
            f"{CORE}/room/remote.py",
            "libs/gangline_kit/carrying/environment.py",
            "docs/elastic.md",
        ),
        shown_by=(
            "tests/core/test_placement.py",
            "tests/core/test_remote.py",
            "tests/services/agent/test_environment.py",
            "tests/end_to_end/test_remote_gpus.py",
        ),
    ),
    Point(
        id="R5",
        asked="CPU and GPU are separate dimensions",
        standing=HERE,
        lives=(f"{CORE}/spec.py", f"{CORE}/limits/quota.py"),
        shown_by=("tests/core/test_quota.py",),
    ),
)
JOBS = (
    Point(
        id="J1",
        asked="A job says what it is and wants; the system adds affinity and predictions",
        standing=HERE,
        lives=(f"{CORE}/spec.py", f"{WIRE}/jobfile.py", f"{CORE}/foresight/affinity.py"),
        shown_by=("tests/wire", "tests/core/test_affinity.py", "tests/core/test_past_use.py"),
    ),
    Point(
        id="J2",
        asked="Gangs: all or nothing, no deadlock, a large job does not block small ones",
        standing=HERE,
        lives=(f"{CORE}/placement", f"{CORE}/reserving/reserve.py"),
        shown_by=("tests/core/test_cycle.py", "tests/cases/test_gang.py", "tests/cases/test_backfill.py"),
    ),
    Point(
        id="J3",
        asked="Topology: neighbours first, required and preferred levels",
        standing=HERE,
        lives=(f"{CORE}/placement", f"{CORE}/room/links.py", f"{SERVICES}agent/nvml_links.py"),
        shown_by=("tests/core/test_placement.py", "tests/core/test_links.py"),
    ),
    Point(
        id="J4",
        asked="Elastic jobs: more or fewer GPUs by the state of the cluster, independent of the framework",
        standing=HERE,
        lives=(f"{CORE}/elasticity", f"{SERVICES}elastic"),
        shown_by=(
            "tests/core/test_elasticity.py",
            "tests/end_to_end/test_elastic_training.py",
            "tests/kubernetes/test_elastic.py",
        ),
    ),
    Point(
        id="J5",
        asked="Training, inference and sessions with service classes; inference shares GPUs by time",
        standing=HERE,
        lives=(f"{CORE}/spec.py", f"{CORE}/making_room/preemption.py", f"{CORE}/pauses/pausing.py"),
        shown_by=("tests/core/test_preemption.py", "tests/cases/test_preemption.py", "tests/core/test_pausing.py"),
    ),
    Point(
        id="J6",
        asked="Job logs are kept: states, waits, real durations",
        standing=HERE,
        lives=(f"{SERVICES}recorder", "libs/gangline_lab/chronicle.py"),
        shown_by=("tests/lab/test_chronicle.py", "tests/services/recorder"),
    ),
)
LOG = (
    Point(
        id="L1",
        asked="Process, inputs, basis and result of every decision, complete enough to replay offline",
        standing=HERE,
        lives=(f"{CORE}/redecide.py", "libs/gangline_lab/replay.py"),
        shown_by=("tests/lab/test_replay.py",),
    ),
    Point(
        id="L2",
        asked="Analysis and policy change apart from scheduling; learning what affects performance",
        standing=HERE,
        lives=("libs/gangline_lab/whatif.py", "libs/gangline_lab/tune.py"),
        shown_by=("tests/lab/test_past.py",),
    ),
    Point(
        id="L3",
        asked="Per job: configuration, duration, use, nodes, problems",
        standing=HERE,
        lives=(f"{SERVICES}recorder", f"{SERVICES}telemetry", "libs/gangline_lab/chronicle.py"),
        shown_by=("tests/services/recorder", "tests/services/gateway/test_use.py", "tests/lab/test_chronicle.py"),
    ),
)
FORM = (
    Point(
        id="F1",
        asked="Asyncio services on NATS, replaced one by one; traces across a job's whole life",
        standing=HERE,
        lives=(f"{KIT}/service.py", f"{KIT}/leader.py", f"{KIT}/tracing.py", "services"),
        shown_by=("tests/bus/test_leader.py",),
    ),
    Point(
        id="F2",
        asked="docker compose for development, a Helm chart for clusters, HTTP submit, NATS subscriptions",
        standing=PARTLY,
        lives=("docker-compose.yml", "helm/gangline", f"{SERVICES}gateway", "docs/integration"),
        shown_by=("tests/house/test_compose.py", "tests/kubernetes/test_chart.py"),
        missing="Composition and chart are read by the real programs; no engine and no cluster runs them in the tests.",
    ),
    Point(
        id="F3",
        asked="aiohttp, nats-py, kubernetes-asyncio, pynvml, msgspec, opentelemetry-sdk, pytest-asyncio",
        standing=HERE,
        lives=("requirements/run.in", "requirements/dev.in"),
        shown_by=("tests/house/test_locks.py",),
    ),
    Point(
        id="F4",
        asked="docker-compose.yml, services, libs, helm, tests, tools and README at the top",
        standing=HERE,
        lives=("docker-compose.yml", "services", "libs", "helm/gangline", "tests", "tools", "README.md"),
        shown_by=("tests/house/test_compose.py", "tests/kubernetes/test_chart.py"),
    ),
)

CHAPTERS: dict[str, tuple[Point, ...]] = {
    "Scheduler": SCHEDULER,
    "Users": USERS,
    "Resources": RESOURCES,
    "Jobs": JOBS,
    "Log": LOG,
    "Form": FORM,
}
