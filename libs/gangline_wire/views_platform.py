"""What the HTTP API answers about machines, groups, usage, policies and access."""

from typing import Any

from msgspec import field

from gangline_core.cluster import Policy, Pool
from gangline_core.groups import Group, User
from gangline_core.reserving.windows import Window
from gangline_wire.views_jobs import View

# --- machines ----------------------------------------------------------------------------------------------


class GpuView(View, frozen=True):
    """One GPU and what is taken of it."""

    index: int
    model: str
    memory_mib: int
    milli_used: int = 0
    memory_mib_used: int = 0
    healthy: bool = True
    problem: str = ""
    uuid: str = ""
    socket: int = 0
    """CPU socket that it hangs on."""
    island: int = 0
    """NVLink island inside the node."""
    switch: int = -1
    """PCIe switch; -1 when not known."""
    mig: str = ""
    """Kind of card when it is cut into slices."""
    slices: tuple[str, ...] = ()
    """The slices it is cut into, as its driver tells ("3g.20gb@4" begins at memory slot 4); empty where it is cut as
    jobs come."""
    paths: tuple[str, ...] = ()
    """How it reaches the node's GPUs, by index: NV4 (four NVLinks), PIX, PXB, PHB, NODE, SYS, X (itself)."""


class NodeView(View, frozen=True):
    """One machine: what it has and what is taken."""

    id: str
    pool: str
    state: str
    """"ready", "drained", "lost" or "sick"."""
    agent: str
    cpu_milli: int
    cpu_milli_used: int
    memory_mib: int
    memory_mib_used: int
    gpus: tuple[GpuView, ...] = ()
    devices: dict[str, int] = field(default_factory=dict)
    devices_used: dict[str, int] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    """As "key" or "key=value"."""
    task_count: int = 0
    why: str = ""
    """Why it is drained or sick."""
    utilisation_percent: int | None = None
    """Mean of its GPUs in the last summary; None when nobody measured."""
    seen_ms: int = 0
    jobs: tuple[int, ...] = ()
    """Jobs with tasks on it, as far as the caller may see them; only in the answer to one node."""
    home: str = ""
    """The pool that its agent names, while an administrator has assigned the node to another."""
    load: "LoadView | None" = None
    """How busy it was lately, as placers that look at load see it; None when nobody measured."""


class LoadView(View, frozen=True):
    """A node's last summary, in percent; None is "not known", never zero. Placers take none older than 300 s."""

    at_ms: int
    gpu_mean: int | None = None
    gpu_deviation: int | None = None
    cpu_mean: int | None = None
    cpu_deviation: int | None = None
    memory_mean: int | None = None
    memory_deviation: int | None = None
    samples: int = 0


class NodesView(View, frozen=True):
    """Nodes in id order; `next` is the cursor of the following page, empty at the end."""

    nodes: tuple[NodeView, ...]
    next: str = ""


class ModelCount(View, frozen=True):
    """GPUs of one model."""

    model: str
    total: int
    used_milli: int
    sick: int = 0
    free_milli: int = 0
    """What new tasks may have, on nodes that take work."""
    tainted_milli: int = 0
    """The same on nodes with taints: for jobs that tolerate them."""


class ClusterView(View, frozen=True):
    """Totals over everything."""

    nodes: int
    nodes_ready: int
    gpus: tuple[ModelCount, ...]
    gpus_total: int
    gpus_used_milli: int
    gpus_sick: int
    jobs: dict[str, int]
    """Jobs by state; ended ones as far as they are remembered."""
    waiting: int
    running: int
    rounds: dict[str, int]
    """Rounds decided or open so far, by pool."""
    pools: tuple[Pool, ...] = ()
    seq: int = 0
    """Log sequence this answer stands on."""
    at: int = 0
    """Latest time in the log."""


# --- groups, usage, policies ---------------------------------------------------------------------------------


class GroupView(View, frozen=True):
    """One group: its settings, and what it uses now."""

    path: str
    settings: Group
    users: tuple[str, ...] = ()
    """Members with settings of their own that the caller may see."""
    usage: dict[str, int] = field(default_factory=dict)
    """Held now, by dimension, everything below included."""
    unfinished: int = 0
    used_gpu_hours: float = 0.0
    budget_exhausted: bool = False
    version: int = 0
    """Also the ETag."""
    cost_gpu_hours: float = 0.0
    """What the use costs by the price list, which is what the budget pays."""
    budget_used_gpu_hours: float = 0.0
    """What the budget has paid, in its present period if it has periods."""
    budget_renews_ms: int = 0
    """When it begins anew; 0 when it never does."""
    users_left_out: int = 0
    """Further users than an answer may hold (group_users)."""


class GroupsView(View, frozen=True):
    """The groups the caller may see, parents before children; the root's path is empty."""

    groups: tuple[GroupView, ...]
    left_out: int = 0
    """Further groups than an answer may hold (group_users)."""


class UserView(View, frozen=True):
    """One user of a group and what they use now."""

    group: str
    user: str
    settings: User
    usage: dict[str, int] = field(default_factory=dict)
    unfinished: int = 0
    used_gpu_hours: float = 0.0
    version: int = 0


class UsageLine(View, frozen=True):
    """What one group or user has used and holds."""

    group: str
    user: str = ""
    """Empty for the group as a whole, everything below included."""
    gpu_milli_ms: int = 0
    """Charged so far plus running allocations until now: GPU thousandths times milliseconds."""
    gpu_hours: float = 0.0
    budget_gpu_hours: int = 0
    budget_exhausted: bool = False
    budget_used_gpu_hours: float = 0
    """What the budget has paid, in its present period if it has periods."""
    budget_renews_ms: int = 0
    """When it begins anew; 0 when it never does."""
    holds: dict[str, int] = field(default_factory=dict)
    """Held now, by dimension."""
    unfinished: int = 0
    cost_gpu_hours: float = 0.0
    """What the use costs by the price list, which is what the budget pays."""


class UsageView(View, frozen=True):
    """Usage of the groups and users the caller may see, at one moment."""

    at: int
    lines: tuple[UsageLine, ...]
    left_out: int = 0
    """Further lines than an answer may hold (group_users); those of users come behind all groups."""


class WindowView(View, frozen=True):
    """Dated capacity, and whether it is in force now."""

    window: Window
    is_on: bool = False
    running_jobs: tuple[int, ...] = ()
    """Jobs that run on its nodes and may still do so when it begins; they go on."""


class WindowsView(View, frozen=True):
    """All dated capacity, soonest first."""

    windows: tuple[WindowView, ...] = ()


class PricesView(View, frozen=True):
    """What a GPU-hour of each model costs, in thousandths of a GPU-hour of budget; "*" is any other model."""

    milli: dict[str, int] = field(default_factory=dict)
    version: int = 0
    """Also the ETag."""


class SettingView(View, frozen=True):
    """One setting that a policy file changes."""

    kind: str
    """"group", "user", "class", "pool", "policy", "prices" or "window"."""
    name: str
    field: str = ""
    before: Any = None
    """None for what did not exist."""
    after: Any = None


class SettingsView(View, frozen=True):
    """All settings as a policy file."""

    settings: dict[str, Any]
    version: int = 0
    """Also the ETag; another one whenever any setting is."""


class AppliedView(View, frozen=True):
    """What a policy file changed, or would change."""

    changes: tuple[SettingView, ...] = ()
    unnamed: tuple[str, ...] = ()
    """What exists and the file does not name: it is left as it is."""
    version: int = 0
    seq: int = 0
    dry_run: bool = False
    doubts: tuple[str, ...] = ()
    """What is allowed and probably not meant, such as a guarantee of more than there is."""


class SchedulerView(View, frozen=True):
    """One of several schedulers of a pool since it began."""

    number: int
    commits: int = 0
    """Gangs that it placed."""
    conflicts: int = 0
    """Gangs whose nodes had changed since it saw them; the leader decided these."""
    delay_ms: int = 0
    """How long the gangs that it placed had waited, smoothed."""


class PolicyView(View, frozen=True):
    """How one pool decides."""

    pool: str
    policy: Policy
    version: int = 0
    """Also the ETag."""
    nodes_wanted: int = 0
    """Nodes that the pool's jobs would use well; 0 unless its policy for sizes is `band`, which says so."""
    utility_permille: int = 0
    """How well they would use them: speed-up per GPU, in thousandths."""
    schedulers: tuple[SchedulerView, ...] = ()
    """What became of their shares, where the pool has several schedulers."""
    levels: dict[str, int] = field(default_factory=dict)
    """The pool's queue levels, and what each adds."""


class PoolView(View, frozen=True):
    """One pool: its queue levels, topology levels and guarantees of shape."""

    settings: Pool
    version: int = 0
    """Also the ETag."""


class PoolsView(View, frozen=True):
    """Every pool, by name."""

    pools: tuple[PoolView, ...]


class PoliciesView(View, frozen=True):
    """Every pool's policy, and the names one may choose from."""

    policies: tuple[PolicyView, ...]
    orderings: tuple[str, ...] = ()
    placements: tuple[str, ...] = ()
    elastics: tuple[str, ...] = ()
    factors: dict[str, str] = field(default_factory=dict)
    """Names a formula may use, with their meaning."""


class DoneView(View, frozen=True):
    """A change is in the log (or would be, in a dry run)."""

    version: int = 0
    seq: int = 0
    dry_run: bool = False
    doubts: tuple[str, ...] = ()
    """What is allowed and probably not meant, such as a guarantee of more than there is."""


# --- access and service -------------------------------------------------------------------------------------


class WhoamiView(View, frozen=True):
    """What the caller's token says."""

    user: str
    role: str
    name: str
    groups: tuple[str, ...] = ()
    """Empty for roles that see everything."""
    expires_ms: int = 0


class TokenView(View, frozen=True):
    """One token, known by its hash."""

    digest: str
    name: str
    role: str
    user: str
    groups: tuple[str, ...] = ()
    expires_ms: int = 0
    revoked: bool = False


class TokensView(View, frozen=True):
    """The tokens the caller may see."""

    tokens: tuple[TokenView, ...]
    left_out: int = 0
    """Further tokens than an answer may hold (group_users)."""


class IssuedTokenView(View, frozen=True):
    """A new token; its text is shown this once."""

    token: str
    view: TokenView


class VersionView(View, frozen=True):
    """What runs here."""

    version: str
    api: str = "v1"
    schema: int = 1
