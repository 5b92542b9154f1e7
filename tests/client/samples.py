"""A small platform at one moment, as views: what the tables of the command are checked on."""

from tests.client.command_line import NOW_MS

from gangline_client.quantities import GPU_MILLI
from gangline_core.cluster import Policy, Pool
from gangline_core.groups import Group, User
from gangline_core.spec import JobSpec, Resources, Role
from gangline_wire import views as v
from gangline_wire.requests import EventLine

MINUTE = 60_000
HOUR = 60 * MINUTE

SPEC = JobSpec(
    name="train-resnet",
    group="research/vision",
    user="ada",
    roles=(
        Role(
            name="worker",
            count=4,
            min_count=2,
            max_count=8,
            resources=Resources(
                gpu_milli=2000, gpu_models=("V100", "A100"), cpu_milli=8500, memory_mib=32768, devices={"rdma": 1}
            ),
            command=("python", "train.py", "--lr", "0.1"),
        ),
    ),
)
ROOM = v.ReasonView(
    code="InsufficientGpus",
    sentence="Needs 8 GPUs; at its turn 3 of 24 suitable ones were free.",
    numbers={"needed": 8, "free": 3, "total": 24},
    hint="Ask for fewer GPUs, accept more models, or wait.",
)
LIMIT = v.ReasonView(
    code="GroupLimit", sentence="Group nlp uses 4 of 4 gpus; the job needs 1 more.", numbers={"used": 4, "limit": 4}
)
WAITING = v.JobView(
    id=41,
    name="train-resnet",
    state="waiting",
    slurm="PD",
    group="research/vision",
    user="ada",
    pool="default",
    gpu_milli=8000,
    size=4,
    submitted_ms=NOW_MS - 15 * MINUTE,
    queued_ms=NOW_MS - 15 * MINUTE,
    reason=ROOM,
    labels={"team": "blue"},
    spec=SPEC,
)
RUNNING = v.JobView(
    id=7,
    name="шахта 訓練",
    state="running",
    slurm="R",
    group="nlp",
    user="bob",
    pool="default",
    gpu_milli=500,
    size=1,
    submitted_ms=NOW_MS - 26 * HOUR,
    queued_ms=NOW_MS - 26 * HOUR,
    started_ms=NOW_MS - 25 * HOUR,
    first_started_ms=NOW_MS - 25 * HOUR,
    waited_ms=HOUR,
    attempt=2,
    preemptions=1,
    sizes={"worker": 1},
    tasks=(
        v.TaskView(
            id="7-2-worker-0",
            role="worker",
            index=0,
            rank=0,
            node="n1",
            state="started",
            gpus=(3,),
            gpu_milli=500,
            gpu_model="T4",
            gpu_fence="not enforced",
            started_ms=NOW_MS - 25 * HOUR,
        ),
    ),
)
FAILED = v.JobView(
    id=3,
    name="broken",
    state="failed",
    slurm="F",
    group="nlp",
    user="bob",
    pool="default",
    gpu_milli=1000,
    size=1,
    submitted_ms=NOW_MS - 30 * HOUR,
    queued_ms=NOW_MS - 30 * HOUR,
    started_ms=NOW_MS - 29 * HOUR,
    ended_ms=NOW_MS - 28 * HOUR,
    exit_code=3,
    attempt=1,
    reason=v.ReasonView(code="ExitCode", sentence="Task 3-1-worker-0 exited with code 3."),
)
PAGE = v.JobPage(jobs=(WAITING, RUNNING, FAILED))
EXPLANATION = v.ExplanationView(
    job=41,
    state="waiting",
    slurm="PD",
    sentence=ROOM.sentence,
    code=ROOM.code,
    numbers=ROOM.numbers,
    hint=ROOM.hint,
    pool="default",
    position=2,
    waiting=5,
    score=-2_500_000,
    terms=(v.TermView("level", 0), v.TermView("10 * age_hours", 2_500_000), v.TermView("-0.1 * gpus", -5_000_000)),
    rejected={"too few free GPUs": 10, "drained": 1},
    start_from_ms=NOW_MS + 3 * MINUTE,
    start_to_ms=NOW_MS + 90 * MINUTE,
    confidence="80 %",
    start_note="Job 7 is expected to end first.",
    notes=("Preempted once.",),
    shortfall=v.ShortfallView(
        verdict="not now",
        excluded=(v.ExcludedView("too few free GPUs", 10, 80), v.ExcludedView("drained", 1, 8)),
        able_nodes=0,
        best="Needs 8 in one NVLink island; the best free NVLink island has 6, on n17.",
        missing="2 more GPUs would have to come free there.",
        moves=(v.MoveView(7, ("n17",), ("n3",), 3_600_000), v.MoveView(0, ("n17",), ("n4",), 0)),
        moves_note="It would start at once if 2 running jobs moved.",
    ),
)
HISTORY = v.HistoryView(
    job=41,
    events=(
        EventLine(
            id="12-0",
            at=NOW_MS - 15 * MINUTE,
            event="Admitted",
            job=41,
            group="research/vision",
            user="ada",
            name="train-resnet",
            message="Admitted; it waits in pool default.",
        ),
        EventLine(
            id="13-0",
            at=NOW_MS - 15 * MINUTE + 40,
            event="Refused",
            job=41,
            group="research/vision",
            user="ada",
            name="train-resnet",
            message=ROOM.sentence,
        ),
    ),
)
QUEUE = v.QueueView(
    pool="default",
    waiting=5,
    lines=(
        v.QueueLineView(
            position=1,
            id=40,
            name="first",
            group="nlp",
            user="bob",
            gpu_milli=1500,
            size=3,
            level="high",
            priority=5,
            waited_ms=2 * HOUR,
            reason=LIMIT,
        ),
        v.QueueLineView(
            position=2,
            id=41,
            name="train-resnet",
            group="research/vision",
            user="ada",
            gpu_milli=16000,
            size=4,
            level="normal",
            priority=0,
            waited_ms=15 * MINUTE,
            reason=ROOM,
            score=-2_500_000,
            start_from_ms=NOW_MS + 3 * MINUTE,
            start_to_ms=NOW_MS + 90 * MINUTE,
        ),
    ),
)
EMPTY_QUEUE = v.QueueView(pool="local", waiting=0, lines=())
CLUSTER = v.ClusterView(
    nodes=2,
    nodes_ready=1,
    gpus=(v.ModelCount("T4", 4, 1500, free_milli=2500), v.ModelCount("V100", 8, 0, 1, tainted_milli=7000)),
    gpus_total=12,
    gpus_used_milli=1500,
    gpus_sick=1,
    jobs={"waiting": 5, "running": 2, "failed": 1},
    waiting=5,
    running=2,
    rounds={"default": 17},
    pools=(Pool(name="default"), Pool(name="local")),
    seq=1234,
    at=NOW_MS,
)


def gpu(index: int, model: str, *, used: int = 0, problem: str = "") -> v.GpuView:
    """One GPU with 16 GiB."""
    return v.GpuView(
        index, model, 16384, milli_used=used, memory_mib_used=used * 16, healthy=not problem, problem=problem
    )


NODE = v.NodeView(
    id="n1",
    pool="default",
    state="ready",
    agent="a1",
    cpu_milli=96_000,
    cpu_milli_used=12_500,
    memory_mib=512 * 1024,
    memory_mib_used=48 * 1024,
    gpus=(gpu(0, "T4", used=GPU_MILLI), gpu(1, "T4", used=500), gpu(2, "T4"), gpu(3, "T4")),
    labels={"topology.gangline.dev/rack": "r1"},
    taints=("gpu=only",),
    devices={"rdma": 2},
    devices_used={"rdma": 1},
    task_count=2,
    utilisation_percent=37,
    seen_ms=NOW_MS - 1500,
)
DRAINED = v.NodeView(
    id="node-0002",
    pool="default",
    state="drained",
    agent="a1",
    cpu_milli=64_000,
    cpu_milli_used=0,
    memory_mib=1024 * 1024,
    memory_mib_used=0,
    gpus=(*(gpu(index, "V100") for index in range(7)), gpu(7, "V100", problem="GPU is lost")),
    why="new fans",
)
NODES = v.NodesView(nodes=(NODE, DRAINED))
ROOT = v.GroupView(path="", settings=Group(path=""), usage={"gpu_milli": 1500}, unfinished=7, used_gpu_hours=1234.5)
RESEARCH = v.GroupView(
    path="research",
    settings=Group(
        path="research",
        limit={"gpu_milli": 8000, "gpu_milli:V100": 4000, "memory_mib": 65536},
        guaranteed={"gpu_milli": 4000},
        user_limit={"jobs": 3},
        heads=("ada",),
        budget_gpu_hours=2000,
        weight=2,
    ),
    users=("ada", "bob"),
    usage={"gpu_milli": 1500},
    unfinished=4,
    used_gpu_hours=99.0,
    budget_used_gpu_hours=147.5,
    version=3,
)
VISION = v.GroupView(path="research/vision", settings=Group(path="research/vision"), unfinished=1)
GROUPS = v.GroupsView(groups=(ROOT, RESEARCH, VISION))
MEMBER = v.UserView(
    group="research",
    user="ada",
    settings=User(name="ada", group="research", limit={"gpu_milli": 2000}),
    usage={"gpu_milli": 500, "cpu_milli": 2500},
    version=1,
)
USAGE = v.UsageView(
    at=NOW_MS,
    lines=(
        v.UsageLine(group="", gpu_hours=1234.5, holds={"gpu_milli": 1500}, unfinished=7),
        v.UsageLine(
            group="research",
            gpu_hours=1999.5,
            budget_gpu_hours=2000,
            budget_used_gpu_hours=1999.5,
            holds={"gpu_milli": 1500, "cpu_milli": 2500},
        ),
        v.UsageLine(group="research-old", gpu_hours=0.0),
        v.UsageLine(
            group="research/vision",
            gpu_hours=10.0,
            budget_gpu_hours=10,
            budget_used_gpu_hours=10.0,
            budget_exhausted=True,
        ),
        v.UsageLine(group="research/vision", user="ada", gpu_hours=10.0),
    ),
)
POLICIES = v.PoliciesView(
    policies=(v.PolicyView(pool="default", policy=Policy(), version=2, nodes_wanted=6, utility_permille=520),),
    orderings=("fifo", "priority", "weighted"),
    placements=("best_fit", "spread"),
    elastics=("adaptive", "band"),
    factors={"age_hours": "hours since it was queued", "gpus": "GPUs asked for"},
)
TOKENS = v.TokensView(
    tokens=(
        v.TokenView("a1" * 32, "laptop", "user", "ada", ("research",)),
        v.TokenView("a2" * 32, "ci", "user", "bot", ("nlp",), expires_ms=NOW_MS - 1),
        v.TokenView("b3" * 32, "old", "admin", "root", revoked=True),
    )
)
WHOAMI = v.WhoamiView(user="ada", role="head", name="laptop", groups=("research",), expires_ms=NOW_MS + HOUR)
EDITS = v.SettingEditsView(
    edits=(
        v.SettingEditView(
            number=9,
            at_ms=NOW_MS - HOUR,
            kind="user",
            name="research:ada",
            act="removed",
            by="eve",
            why="left",
            version=2,
            groups=("research",),
        ),
        v.SettingEditView(
            number=7,
            at_ms=NOW_MS - 30 * HOUR,
            kind="group",
            name="research",
            act="changed",
            by="root",
            why="a new grant",
            version=3,
            changes=(
                v.ValueView(field="limit.gpus", before=8, after=16),
                v.ValueView(field="heads", after=["ada", "eve"]),
                v.ValueView(field="budget_mode", before="start", after="safe"),
            ),
            groups=("research",),
        ),
        v.SettingEditView(number=2, at_ms=NOW_MS - 900 * HOUR, kind="group", name="research", act="made", by="root"),
    ),
    kept=20,
)
