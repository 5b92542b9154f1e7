"""Full examples of the door's facts and requests about admitted jobs, dated capacity, prices and whole documents."""

from gangline_core import facts as f
from gangline_core.cluster import Policy, Pool
from gangline_core.door.edits import JobEdit
from gangline_core.groups import BudgetMode, Group, User, UserClass
from gangline_core.ids import JobId, NodeId
from gangline_core.limits.calendar import Season
from gangline_core.reserving.windows import Window
from gangline_core.settings.document import Document
from gangline_wire import requests as r

JOB = JobId(42)
EDIT = JobEdit(
    pool="gpu-b",
    level="low",
    priority=-3,
    time_limit_s=3600,
    estimate_s=1800,
    not_before_ms=1_774_744_200_000,
    deadline_ms=1_774_844_200_000,
    retries=1,
    preemptible=False,
    labels={"team": "vision"},
    at_most=8,
)
WINDOW = Window(
    name="bios",
    pool="gpu-a",
    start_ms=1_774_744_200_000,
    end_ms=1_774_751_400_000,
    nodes=(NodeId("n1"),),
    groups=("research",),
    users=("eve",),
    why="new BIOS",
    version=2,
)
SEASON = Season(
    name="night",
    start_minute=1320,
    end_minute=360,
    days=(0, 1, 2, 3, 4),
    zone="Europe/Berlin",
    limit={"gpu_milli": 64_000},
    user_limit={"gpu_milli": 8000},
    job_limit={"gpu_milli": 16_000},
)
CLASS = UserClass(
    name="student", limit={"gpu_milli": 1000}, level=-1, queued_jobs_max=20, submits_per_minute=6, priority_max=0,
    version=1,
)  # fmt: skip
GROUP = Group(
    path="teaching",
    guaranteed={"gpu_milli": 8000},
    borrow_limit={"gpu_milli": 2000},
    lend_limit={"gpu_milli": 4000},
    user_queued_jobs_max=50,
    user_submits_per_minute=30,
    priority_max=100,
    user_priority_max=10,
    levels=("normal", "low"),
    budget_gpu_hours=500,
    budget_mode=BudgetMode.SAFE,
    seasons=(SEASON,),
)
DOCUMENT = Document(
    groups=(GROUP,),
    users=(User(name="eve", group="teaching", priority_max=3, of_class="student"),),
    classes=(CLASS,),
    pools=(Pool(name="gpu-a", levels={"high": 10}, topology={"rack": "r"}),),
    policies={"gpu-a": Policy(ordering="fifo")},
    prices={"h100": 2500},
    windows=(WINDOW,),
)

FACTS: tuple[f.Fact, ...] = (
    f.JobEdited(job=JOB, edit=EDIT, by="ada", why="later"),
    f.JobTopped(job=JOB, among="research", by="hana", why="urgent"),
    f.GroupRemoved(path="teaching", by="root", why="over"),
    f.UserRemoved(group="teaching", user="eve", by="hana", why="left"),
    f.WindowSet(window=WINDOW, by="root", why="planned"),
    f.WindowRemoved(name="bios", by="root", why="done"),
    f.ClassSet(user_class=CLASS, by="root", why="new term"),
    f.PricesSet(milli={"h100": 2500, "*": 1000}, by="root", why="new cards", version=3),
)

REQUESTS: tuple[r.Request, ...] = (
    r.EditJob(job=42, edit=EDIT, by="ada", standing="owner", why="later", dry_run=True),
    r.TopJob(job=42, among="research", by="hana", why="urgent"),
    r.SetSize(job=42, size=4, by="ada", role="worker"),
    r.RemoveGroup(path="teaching", by="root", why="over", drain=True, if_version=3, dry_run=True),
    r.RemoveUser(group="teaching", user="eve", by="hana", why="left", drain=True, if_version=2, dry_run=True),
    r.SetWindow(window=WINDOW, by="root", why="planned", if_version=1, dry_run=True),
    r.RemoveWindow(name="bios", by="root", why="done"),
    r.SetPrices(milli={"h100": 2500, "*": 1000}, by="root", why="new cards", if_version=2, dry_run=True),
    r.ApplySettings(document=DOCUMENT, by="root", why="quarter", if_version=12_345, dry_run=True),
)
