"""One full example of every fact, request and reply: what the golden files hold."""

from msgspec.structs import replace
from tests.wire import samples_door

from gangline_core import facts as f
from gangline_core.cluster import Gpu, Node, Policy, Pool, Taint
from gangline_core.facts.queue import Lease, Part
from gangline_core.groups import Group, Token, User
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import GpuShare, ResizeStage
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.sizes.progress import Point, Progress
from gangline_core.spec import (
    ArraySpec,
    Dependency,
    DependencyKind,
    JobSpec,
    Resources,
    Role,
    ServiceClass,
    Toleration,
    TopologyWish,
)
from gangline_wire import requests as r
from gangline_wire import samples as w

SPEC = JobSpec(
    name="训练 1",
    group="research/vision",
    user="ada",
    roles=(
        Role(
            name="worker",
            count=2,
            min_count=1,
            max_count=4,
            resources=Resources(
                gpu_milli=2000,
                gpu_memory_mib=16_384,
                gpu_models=("H100", "A100"),
                cpu_milli=8000,
                memory_mib=65_536,
                devices={"rdma": 1},
            ),
            command=("python", "train.py", "--token", "{{secret:worker.arg.3}}"),
            environment={"MODE": "LIVE", "API_TOKEN": "{{secret:worker.env.API_TOKEN}}"},
            image="registry:5000/x:1",
            sizes=(1, 2, 4),
        ),
    ),
    pool="gpu-a",
    level="high",
    priority=-3,
    service_class=ServiceClass.GUARANTEED,
    labels={"team": "vision"},
    attributes={"kind": "training", "parameters": 7_000_000_000, "lr": 0.1, "mixed": True},
    topology=TopologyWish(required="rack", preferred="node"),
    node_selector={"zone": "a"},
    tolerations=(Toleration("gpu", "a100"),),
    estimate_s=3600,
    time_limit_s=7200,
    protected_s=600,
    grace_s=45,
    stop_signal="SIGINT",
    retries=2,
    preemptible=False,
    after=(Dependency(job=7, any_outcome=True), Dependency(job=8, kind=DependencyKind.NOT_OK, index=3)),
    not_before_ms=1_774_744_200_000,
    hold=True,
    secrets=("worker.env.API_TOKEN", "worker.arg.3"),
    deadline_ms=1_774_844_200_000,
    singleton=True,
    array=ArraySpec(ranges=((0, 98, 2),), at_most=4),
)
NODE = Node(
    id=NodeId("n1"),
    agent="sim",
    cpu_milli=64_000,
    memory_mib=524_288,
    gpus=(
        Gpu(
            index=0, model="A100", memory_mib=40_960, uuid="GPU-1", socket=1, island=2, healthy=False, problem="XID 79"
        ),
    ),
    pool="gpu-a",
    labels={"zone": "a"},
    taints=(Taint("gpu", "a100"),),
    devices={"rdma": 2},
    address="10.0.0.1",
    drained=True,
    drain_why="fans",
    lost=True,
    seen_ms=1_700_000_000_000,
    problem="NVML fails",
)  # fmt: skip
GROUP = Group(
    path="research/vision",
    guaranteed={"gpu_milli": 8000},
    limit={"gpu_milli": 16_000, "gpu_milli:A100": 8000},
    user_limit={"gpu_milli": 4000},
    job_limit={"gpu_milli": 8000},
    weight=2,
    level=1,
    heads=("ada",),
    queued_jobs_max=100,
    submits_per_minute=60,
    time_limit_s_max=86_400,
    budget_gpu_hours=1000,
    version=3,
)
USER = User(
    name="ada", group="research/vision", limit={"gpu_milli": 4000}, level=1, queued_jobs_max=10, submits_per_minute=6,
    version=2,
)  # fmt: skip
TOKEN = Token(
    digest="0" * 64, name="laptop", role="user", user="ada", groups=("research/vision",), expires_ms=1_800_000_000_000,
    revoked=True,
)  # fmt: skip
REASON = Reason(ReasonCode.GROUP_LIMIT, {"group": "research", "used": 8, "limit": 8, "dimension": "GPUs", "needed": 2})
JOB, TASK, N1 = JobId(42), TaskId("42-1-worker-0"), NodeId("n1")
PLACE = f.TaskPlacement(
    role="worker", index=0, node=N1, gpus=(GpuShare(0, 1000, 40_960),), cpu_milli=8000, memory_mib=65_536,
    devices={"rdma": 1},
)  # fmt: skip
PLACEMENT = f.Placement(job=JOB, attempt=1, tasks=(PLACE,), port=29_500, level="node", backfilled=True)
KEPT_OUT = f.KeptOut(reason=REASON, jobs=(JOB,))

FACTS: tuple[f.Fact, ...] = (
    f.LeadershipTaken(holder="admission-1"),
    f.JobAdmitted(job=JOB, spec=SPEC, submit_id="ada:k1", by="ada", trace="00-" + "1" * 32 + "-" + "2" * 16 + "-01"),
    f.JobRejected(spec=SPEC, submit_id="ada:k1", by="ada", reason=REASON, of=3, ask="7f3a"),
    f.CancelRequested(job=JOB, by="ada", why="wrong data"),
    f.HoldSet(job=JOB, held=True, by="ada", pause=True, urgent=True),
    f.GroupSet(group=GROUP, by="root", why="more"),
    f.UserSet(user=USER, by="ada", why="more"),
    f.PoolSet(pool=Pool(name="gpu-a", levels={"high": 10}, topology={"rack": "r"}, version=2), by="root", why="new"),
    f.PolicySet(pool="gpu-a", policy=Policy(ordering="fifo", version=4), by="root", why="trial"),
    f.DrainSet(node=N1, drained=True, by="root", why="fans"),
    f.NodeAssigned(node=N1, pool="large", by="root", why="a deadline"),
    f.NodeForgotten(node=N1, by="root", why="scrapped", tasks=(TaskId("7-1-worker-0"),)),
    f.TokenIssued(token=TOKEN, by="root"),
    f.TokenRevoked(digest="0" * 64, by="root"),
    f.RoundOpened(
        pool="gpu-a",
        round=9,
        candidates=(f.Candidate(job=JOB, score=1_500_000, terms=(1_000_000, 500_000)),),
        terms=("level", "age"),
        kept_out=(KEPT_OUT,),
        given_up=(KEPT_OUT,),
        waiting=3,
        policy_version=4,
        edges=(JOB,),
        is_cut=False,
        foreseen=(f.Foreseen(job=JOB, wait_ms=60_000, low_ms=6_000, middle_ms=54_000, high_ms=180_000),),
        leases=(Lease(job=JOB, model="A100"),),
        parts=(Part(job=JOB, model="A100", micro=500_000),),
        limited=(JOB,),
        companies=((JOB, JobId(43)),),
        looks=3,
    ),
    f.RoundDecided(
        pool="gpu-a",
        round=9,
        placements=(PLACEMENT, replace(PLACEMENT, beside=JobId(41))),
        growths=(f.Growth(job=JOB, attempt=1, tasks=(PLACE,)),),
        refusals=(f.Refusal(reason=REASON, jobs=(JOB,)),),
        evictions=(f.Eviction(job=JOB, beneficiary=JobId(43), rule="priority", lost_ms=1000),),
        shrinks=(f.Shrink(job=JOB, tasks=(TASK,), beneficiary=JobId(43)),),
        claims=(f.Claim(job=JOB, placement=PLACEMENT, victims=(TASK,), made_ms=1_700_000_000_000),),
        claims_dropped=(JobId(44),),
        reservations=(f.Reservation(job=JOB, start_ms=1_700_000_000_000, tasks=(PLACE,)),),
        unplaced=1,
        unseen=1,
        digest="d" * 32,
        late_starts=(JobId(45),),
        restarts=(f.Restart(job=JOB, placement=PLACEMENT, why="idle GPUs"),),
        heads=(("high", JOB),),
        pauses=(f.JobPaused(job=JOB, beneficiary=JobId(46), rule="slice"),),
        resumes=(JobId(47),),
        packings=((JobId(48), JobId(49)),),
        calls_for_more=False,
        lowerings=(f.Lowering(job=JOB, beneficiary=JobId(48)),),
        late_repairs=(JobId(49),),
        limit_dates=(f.LimitDate(job=JobId(50), start_ms=1_700_000_000_000),),
    ),
    f.ShareDecided(pool="gpu-a", round=9, scheduler=2, placements=(PLACEMENT,), digest="d" * 32),
    f.ResizeProposed(
        pool="gpu-a", job=JOB, role="worker", size=4, why="idle GPUs", model="H100", moves=True, because=117
    ),
    f.ResizeAsked(job=JOB, role="worker", size=6, by="ada"),
    f.ResizeFailed(job=JOB, number=3, stage=ResizeStage.CONFIRMING),
    f.LimitSet(job=JOB, percent=40, why="the others are as fast as alone"),
    f.NodesWanted(pool="gpu-a", nodes=6, utility_permille=520),
    f.MemberSafe(task=TASK),
    f.ResizeConfirmed(job=JOB, number=3, size=4),
    f.ProgressReported(
        job=JOB,
        progress=Progress(
            permille=125,
            remaining_s=3600,
            step=10,
            samples=5120,
            points=(Point(nodes=2, members=4, batch=128, gathered=0, step_us=250_000),),
            grad_sqr=1360,
            grad_var=502,
            checkpoint_step=8,
        ),
    ),
    f.GpuSuspected(node=N1, gpu=3, problem="clocks are held down: hw_thermal", event=1_700_000_000_000),
    f.NodeQuarantined(node=N1, problem="the starts of 3 different jobs in a row failed at once here"),
    f.JobUsed(
        job=JOB,
        gpu_percent=3,
        window_s=900,
        memory_mib_max=4096,
        is_low=True,
        tensor_percent=1,
        cpu_milli=1500,
        host_memory_mib=9000,
        summary_s=60,
    ),
    f.JobReclaimed(job=JOB, percent=3, window_s=1800, least=10),
    f.GangHung(job=JOB, attempt=2, task=TASK, silent_s=600, sign="idle"),
    f.GpuTrespassed(job=JOB, attempt=2, task=TASK, node=N1, gpu=1),
    f.StragglersSeen(job=JOB, attempt=2, slow={TASK: 180}),
    f.GangMoved(job=JOB, attempt=2, moved=(TASK,), worked=(TASK,)),
    f.NodeSeen(node=NODE, alive=(TASK,)),
    f.TaskStarted(task=TASK, pid=4242, pod="team-a/llm-worker-0/train"),
    f.TaskExited(
        task=TASK,
        cause=f.ExitCause.EXITED,
        exit_code=3,
        error="no such file",
        silent=True,
        ports=(29500, 29502),
        witnessed=True,
    ),
    f.TaskPaused(task=TASK),
    f.GpusEmpty(tasks=(TASK,)),
    f.NodeLost(node=N1, silent_ms=30_000),
    f.GpuFailed(node=N1, gpu=0, problem="XID 79", event=1_700_000_000_000),
    f.GpuHealthy(node=N1, gpu=0, event=1_700_000_000_000),
    f.UtilisationSummary(
        node=N1,
        gpu_percent=87,
        memory_mib=1024,
        samples=60,
        gpu_deviation=5,
        cpu_percent=30,
        cpu_deviation=2,
        memory_percent=40,
        memory_deviation=1,
    ),
    f.UsageCharged(
        task=TASK,
        job=JOB,
        group="research/vision",
        user="ada",
        gpu_model="A100",
        gpu_milli_ms=7_200_000_000,
        cost=9_000_000_000,
    ),
    f.BudgetExhausted(group="research", used_gpu_milli_ms=3_600_000_000, exhausted=False),
    *samples_door.FACTS,
)

REQUESTS: tuple[r.Request, ...] = (
    r.SubmitJobs(
        jobs=(SPEC,),
        submit_id="ada:k1",
        by="ada",
        secrets=({"worker.arg.3": "x"},),
        trace="00-1-2-01",
        dry_run=True,
        hidden=(7,),
        ask="7f3a",
    ),
    r.CancelJob(job=42, by="ada", why="wrong data"),
    r.SetHold(job=42, held=True, by="ada", pause=True, urgent=True),
    r.SetGroup(group=GROUP, by="root", why="more", if_version=3, dry_run=True),
    r.SetUser(user=USER, by="ada", why="more", if_version=2, dry_run=True),
    r.SetPool(
        pool=Pool(name="gpu-a", levels={"high": 10}, topology={"rack": "r"}),
        by="root",
        why="new",
        if_version=1,
        dry_run=True,
    ),
    r.SetPolicy(pool="gpu-a", policy=Policy(), by="root", why="trial", if_version=4, dry_run=True),
    r.SetDrain(node="n1", drained=True, by="root", why="fans"),
    r.AssignNode(node="n1", pool="large", by="root", why="a deadline"),
    r.ForgetNode(node="n1", by="root", why="scrapped", gone=True),
    r.IssueToken(token=TOKEN, by="root"),
    r.RevokeToken(digest="0" * 64, by="root"),
    *samples_door.REQUESTS,
)

REPLIES: tuple[r.Reply, ...] = (
    r.Admitted(jobs=(42, 43), seq=120, repeated=True),
    r.Refused(refusals=(r.Refusal(index=0, reason=REASON, field="group"),)),
    r.Done(seq=121, version=4),
    r.Denied(kind="invalid", message="too much", field="limit.gpu_milli"),
    r.Unavailable(retry_after_s=1.5, message="the door changed hands"),
)

OTHERS = (
    r.JobHistory(job=42),
    r.History(
        events=(
            r.EventLine(
                id="120-0", at=1_700_000_000_000, event="Admitted", job=42, group="research/vision", user="ada",
                name="训练 1", message="In the queue.", numbers={"position": 3},
            ),
        )
    ),
    w.Samples(
        agent="sim",
        nodes=(
            w.NodeSample(
                node="n1", at=1_700_000_000_000, cpu_percent=12, memory_used_mib=1024,
                gpus=(
                    w.GpuSample(
                        index=0, uuid="GPU-1", model="A100", utilisation_percent=87, memory_used_mib=30_000,
                        memory_total_mib=40_960, temperature_celsius=61, power_milliwatts=250_000, problem="XID 79",
                    ),
                ),
            ),
        ),
    ),
)  # fmt: skip
"""Messages that are neither facts nor requests to admission."""
