"""What services ask each other over request/reply: imperative, each with one typed answer."""

from msgspec import Struct

from gangline_core.cluster import Policy, Pool
from gangline_core.door.edits import JobEdit
from gangline_core.groups import Group, Token, User
from gangline_core.reasons import Reason
from gangline_core.reserving.windows import Window
from gangline_core.settings.document import Document
from gangline_core.spec import JobSpec


class RequestBase(Struct, frozen=True, omit_defaults=True, tag_field="request"):
    """What all requests share."""


class SubmitJobs(RequestBase, frozen=True, tag=True):
    """Judge these jobs and, if all are legal, admit all of them; a repeat of `submit_id` gives the first answer."""

    jobs: tuple[JobSpec, ...]
    submit_id: str
    by: str
    secrets: tuple[dict[str, str], ...] = ()
    """Per job: sealed values by name; kept apart from the log."""
    trace: str = ""
    dry_run: bool = False
    hidden: tuple[int, ...] = ()
    """Jobs that these ones follow, and of which the sender may not know that they exist."""
    ask: str = ""
    """This very request, however often it is sent: once refused it is not taken later. A repeat has another one."""


class CancelJob(RequestBase, frozen=True, tag=True):
    """End this job; allowed was checked by the gateway, existence is checked here."""

    job: int
    by: str
    why: str = ""


class SetHold(RequestBase, frozen=True, tag=True):
    """Hold or release a job."""

    job: int
    held: bool
    by: str
    pause: bool = False
    """A running job that may be paused stays where it is."""
    urgent: bool = False
    """A paused job that is released has others make way."""


class EditJob(RequestBase, frozen=True, tag=True):
    """Change some terms of a job; who may change what of it was found out by the gateway, the rest is judged here."""

    job: int
    edit: JobEdit
    by: str
    standing: str
    """What the sender is to the job: "owner", "head" or "admin"."""
    why: str = ""
    dry_run: bool = False


class TopJob(RequestBase, frozen=True, tag=True):
    """Put a waiting job before the others of a user, a group, or everybody (the root)."""

    job: int
    among: str
    by: str
    why: str = ""


class SetSize(RequestBase, frozen=True, tag=True):
    """Ask for a size of an elastic job's role, within its bounds; 0 leaves the size to the policy again."""

    job: int
    size: int
    by: str
    role: str = ""
    """May be empty when the job has one role."""


class SetWindow(RequestBase, frozen=True, tag=True):
    """Set dated capacity aside, or change it as a whole."""

    window: Window
    by: str
    why: str = ""
    if_version: int = -1
    dry_run: bool = False


class RemoveWindow(RequestBase, frozen=True, tag=True):
    """Give dated capacity back."""

    name: str
    by: str
    why: str = ""


class SetPrices(RequestBase, frozen=True, tag=True):
    """Change the price list as a whole."""

    milli: dict[str, int]
    by: str
    why: str = ""
    if_version: int = -1
    dry_run: bool = False


class ApplySettings(RequestBase, frozen=True, tag=True):
    """Make the settings as this document says, all of it or nothing; `if_version` is that of all settings."""

    document: Document
    by: str
    why: str = ""
    if_version: int = -1
    dry_run: bool = False


class SetGroup(RequestBase, frozen=True, tag=True):
    """Make or change a group; `if_version` refuses when somebody else was faster (-1 does not care)."""

    group: Group
    by: str
    why: str = ""
    if_version: int = -1
    dry_run: bool = False


class SetUser(RequestBase, frozen=True, tag=True):
    """Make or change a user of a group."""

    user: User
    by: str
    why: str = ""
    if_version: int = -1
    dry_run: bool = False


class RemoveGroup(RequestBase, frozen=True, tag=True):
    """Take a group out of the tree; `drain` closes it and everything below, and it goes when its last job has ended."""

    path: str
    by: str
    why: str = ""
    drain: bool = False
    if_version: int = -1
    dry_run: bool = False


class RemoveUser(RequestBase, frozen=True, tag=True):
    """End a membership; `drain` lets the user's jobs end first."""

    group: str
    user: str
    by: str
    why: str = ""
    drain: bool = False
    if_version: int = -1
    dry_run: bool = False


class SetPool(RequestBase, frozen=True, tag=True):
    """Make or change a pool."""

    pool: Pool
    by: str
    why: str = ""
    if_version: int = -1
    dry_run: bool = False


class SetPolicy(RequestBase, frozen=True, tag=True):
    """Change a pool's policy; checked as a whole, dry-run possible."""

    pool: str
    policy: Policy
    by: str
    why: str = ""
    if_version: int = -1
    dry_run: bool = False


class SetDrain(RequestBase, frozen=True, tag=True):
    """Drain a node or resume it."""

    node: str
    drained: bool
    by: str
    why: str = ""


class AssignNode(RequestBase, frozen=True, tag=True):
    """Let a node serve a pool; "" gives it back to the pool that its agent names."""

    node: str
    pool: str
    by: str
    why: str = ""


class ForgetNode(RequestBase, frozen=True, tag=True):
    """Take a lost node off the books; `gone` says that nothing runs there any more, though nobody saw its tasks end."""

    node: str
    by: str
    why: str = ""
    gone: bool = False


class IssueToken(RequestBase, frozen=True, tag=True):
    """Make a token known by its hash."""

    token: Token
    by: str


class RevokeToken(RequestBase, frozen=True, tag=True):
    """Make a token useless."""

    digest: str
    by: str


Request = (
    SubmitJobs
    | CancelJob
    | SetHold
    | EditJob
    | TopJob
    | SetSize
    | SetWindow
    | RemoveWindow
    | SetPrices
    | ApplySettings
    | SetGroup
    | SetUser
    | RemoveGroup
    | RemoveUser
    | SetPool
    | SetPolicy
    | SetDrain
    | AssignNode
    | ForgetNode
    | IssueToken
    | RevokeToken
)
"""Everything the admission leader answers on `gangline.api.admission`."""


class ReplyBase(Struct, frozen=True, omit_defaults=True, tag_field="reply"):
    """What all replies share."""


class Admitted(ReplyBase, frozen=True, tag=True):
    """All jobs of the request exist, in order; `seq` is the log sequence that holds them."""

    jobs: tuple[int, ...]
    seq: int = 0
    repeated: bool = False
    """True when the same submit_id had been answered before."""


class Refusal(Struct, frozen=True, omit_defaults=True):
    """Why one job of a submit was refused; `index` counts from 0."""

    index: int
    reason: Reason
    field: str = ""
    """Path of the field that is wrong, when one is."""


class Refused(ReplyBase, frozen=True, tag=True):
    """No job of the request was admitted and nothing was charged."""

    refusals: tuple[Refusal, ...]


class Done(ReplyBase, frozen=True, tag=True):
    """The change is in the log (or would be, for a dry run)."""

    seq: int = 0
    version: int = 0


class Denied(ReplyBase, frozen=True, tag=True):
    """The change was refused.

    `kind` is one of "not_found", "conflict" (If-Match or state), "invalid", "too_large".
    """

    kind: str
    message: str
    field: str = ""


class Unavailable(ReplyBase, frozen=True, tag=True):
    """Nobody could answer now; try again after the delay."""

    retry_after_s: float
    message: str = ""


Reply = Admitted | Refused | Done | Denied | Unavailable
"""Everything the admission leader may answer."""


class JobHistory(RequestBase, frozen=True, tag=True):
    """Everything the archive has about one job."""

    job: int


class EventLine(Struct, frozen=True, omit_defaults=True):
    """One public event, as on GANGLINE_EVENTS."""

    id: str
    """Resume token: "<log seq>-<index>"."""
    at: int
    event: str
    """CamelCase, such as Running: one of the public events."""
    job: int
    group: str
    user: str
    name: str
    message: str
    numbers: dict[str, int | str] = {}


class History(ReplyBase, frozen=True, tag=True):
    """The job's story, oldest first."""

    events: tuple[EventLine, ...]
    left_out: int = 0
    """Events beyond what an answer may hold: neither of the first ones, nor of the newest."""
    left_out_after: int = 0
    """How many of `events` stand before those that are left out."""
