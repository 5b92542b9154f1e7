"""Every route of the HTTP API, once: the server, the OpenAPI document and the tests read this table."""

from gangline_core.cluster import Policy, Pool
from gangline_core.groups import Group, User
from gangline_gateway import events, jobs, logs, machines, policies, pools, service, submit, tokens, tree, waiting
from gangline_gateway.table import Parameter, Route
from gangline_wire import jobfile_schema
from gangline_wire import views as v

TEXT = "text/plain"
EVENT_STREAM = "text/event-stream"
JOB_FILE = "JobFile"
"""Name of the hand-written schema of a job file."""
BATCH_FILE = "BatchFile"
WHY_FILE = "WhyFile"
TOKEN_FILE = "TokenFile"

_DRY_RUN = Parameter("dry_run", "True judges and changes nothing.", "boolean", "true")
_LIMIT = Parameter("limit", "Entries of one page.", "integer", "100")
_CURSOR = Parameter("cursor", "`next` of the page before, with the same filters.")
_POOL = Parameter("pool", "Only of this pool.", example="default")
_WHY = Parameter("why", "A reason, for the record.")
_WHY_EXAMPLE = {"why": "wrong data"}
_CHANGES = ("forbidden", "malformed_json", "unsupported_media_type", "body_too_large", "invalid_fields", "unavailable")
_SUBMITS = (*_CHANGES, "conflict", "key_reused", "refused", "too_many")
_SETS = (*_CHANGES, "not_found", "conflict", "version_conflict")
_STEERS = (*_CHANGES, "not_found", "conflict")

GROUP_EXAMPLE = {"path": "research", "limit": {"gpu_milli": 16000}, "guaranteed": {"gpu_milli": 8000}, "heads": ["ada"]}
USER_EXAMPLE = {"name": "ada", "group": "research", "limit": {"gpu_milli": 4000}}
POLICY_EXAMPLE = {"ordering": "weighted", "formula": "level + 1000 * priority + 10 * age_hours"}
POOL_EXAMPLE = {"name": "local"}
TOKEN_EXAMPLE = {"name": "ada's laptop", "role": "user", "user": "ada", "groups": ["research"], "expires_in": "90d"}

JOB_ROUTES = (
    Route(
        "POST",
        "/v1/jobs",
        submit.submit_one,
        "Submit one job; answered when the log holds it.",
        v.JobView,
        status=202,
        query=(_DRY_RUN,),
        body=JOB_FILE,
        example=jobfile_schema.EXAMPLE,
        problems=_SUBMITS,
        changes=True,
        is_idempotent_by_key=True,
    ),
    Route(
        "POST",
        "/v1/jobs:batch",
        submit.submit_batch,
        "Submit up to 1000 jobs: all of them or none.",
        v.BatchView,
        status=202,
        query=(_DRY_RUN,),
        body=BATCH_FILE,
        example={"jobs": [jobfile_schema.EXAMPLE]},
        problems=_SUBMITS,
        changes=True,
        is_idempotent_by_key=True,
    ),
    Route(
        "GET",
        "/v1/jobs",
        jobs.list_jobs,
        "The jobs the caller may see, in id order.",
        v.JobPage,
        query=(
            Parameter(
                "state", "States, with commas between; also `unfinished` and `ended`.", example="waiting,running"
            ),
            Parameter("group", "This group and everything below.", example="research"),
            Parameter("user", "Of this user.", example="ada"),
            _POOL,
            Parameter("name", "With exactly this name."),
            Parameter("label", "With these labels: `key` or `key=value`, with commas between.", example="team=vision"),
            Parameter("order", "`asc` (default) or `desc`: newest first.", example="desc"),
            _LIMIT,
            _CURSOR,
        ),
        problems=("invalid_cursor",),
    ),
    Route("GET", "/v1/jobs/{id}", jobs.get_job, "One job with its tasks.", v.JobView, problems=("not_found",)),
    Route(
        "DELETE",
        "/v1/jobs/{id}",
        jobs.cancel_job,
        "Cancel a job, waiting or running.",
        v.DoneView,
        status=202,
        query=(_WHY,),
        problems=_STEERS,
        changes=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{id}/cancel",
        jobs.cancel_job,
        "Cancel a job, waiting or running.",
        v.DoneView,
        status=202,
        body=WHY_FILE,
        body_optional=True,
        example=_WHY_EXAMPLE,
        problems=_STEERS,
        changes=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{id}/hold",
        jobs.hold_job,
        "Keep a job from starting; a running one is suspended.",
        v.DoneView,
        status=202,
        body=WHY_FILE,
        body_optional=True,
        example=_WHY_EXAMPLE,
        problems=_STEERS,
        changes=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{id}/release",
        jobs.release_job,
        "Let a held or suspended job run.",
        v.DoneView,
        status=202,
        body=WHY_FILE,
        body_optional=True,
        example=_WHY_EXAMPLE,
        problems=_STEERS,
        changes=True,
    ),
    Route(
        "GET",
        "/v1/jobs/{id}/explain",
        waiting.explain_job,
        "Why the job is where it is, and when it may start.",
        v.ExplanationView,
        problems=("not_found",),
    ),
    Route(
        "GET",
        "/v1/jobs/{id}/history",
        jobs.job_history,
        "What happened to the job, oldest first.",
        v.HistoryView,
        problems=("not_found", "unavailable"),
    ),
    Route(
        "GET",
        "/v1/jobs/{id}/logs",
        logs.send_logs,
        "What its tasks wrote.",
        TEXT,
        query=(
            Parameter("task", "One task, such as `42-1-worker-0` or `worker-0`."),
            Parameter("follow", "True goes on until the job has ended.", "boolean", "true"),
            Parameter("tail", "Only so many last lines of what is there.", "integer", "100"),
        ),
        problems=("not_found", "too_many"),
        is_stream=True,
    ),
    Route(
        "GET",
        "/v1/events",
        events.send_events,
        "Events as they happen; resume with Last-Event-ID.",
        EVENT_STREAM,
        query=(
            Parameter("job", "Of this job.", "integer", "42"),
            Parameter("group", "Of this group and everything below.", example="research"),
        ),
        problems=("malformed_request", "not_found", "too_many", "unavailable"),
        is_stream=True,
    ),
    Route(
        "GET",
        "/v1/queue",
        waiting.show_queue,
        "The waiting jobs of a pool in order, each with its reason.",
        v.QueueView,
        query=(Parameter("pool", "The pool; `default` if left out.", example="default"), _LIMIT),
        problems=("not_found",),
    ),
)

PLATFORM_ROUTES = (
    Route(
        "GET",
        "/v1/nodes",
        machines.list_nodes,
        "Nodes in id order.",
        v.NodesView,
        query=(_POOL, _LIMIT, _CURSOR),
        problems=("invalid_cursor",),
    ),
    Route("GET", "/v1/nodes/{id}", machines.get_node, "One node.", v.NodeView, problems=("not_found",)),
    Route(
        "POST",
        "/v1/nodes/{id}/drain",
        machines.drain_node,
        "Let a node take no new work; what runs goes on.",
        v.DoneView,
        body=WHY_FILE,
        body_optional=True,
        example=_WHY_EXAMPLE,
        problems=_STEERS,
        changes=True,
    ),
    Route(
        "POST",
        "/v1/nodes/{id}/resume",
        machines.resume_node,
        "Let a drained node take work again.",
        v.DoneView,
        body=WHY_FILE,
        body_optional=True,
        example=_WHY_EXAMPLE,
        problems=_STEERS,
        changes=True,
    ),
    Route("GET", "/v1/groups", tree.list_groups, "Groups, parents first.", v.GroupsView),
    Route(
        "GET",
        "/v1/groups/{path:.*}/users/{user}",
        tree.get_user,
        "One user of a group.",
        v.UserView,
        problems=("not_found",),
        has_etag=True,
    ),
    Route(
        "PUT",
        "/v1/groups/{path:.*}/users/{user}",
        tree.put_user,
        "Make or change a user of a group.",
        v.DoneView,
        query=(_DRY_RUN, _WHY),
        body=User,
        example=USER_EXAMPLE,
        problems=_SETS,
        changes=True,
        has_etag=True,
    ),
    Route(
        "GET",
        "/v1/groups/{path:.*}",
        tree.get_group,
        "One group; `~` is the root.",
        v.GroupView,
        problems=("not_found",),
        has_etag=True,
    ),
    Route(
        "PUT",
        "/v1/groups/{path:.*}",
        tree.put_group,
        "Make or change a group, as a whole.",
        v.DoneView,
        query=(_DRY_RUN, _WHY),
        body=Group,
        example=GROUP_EXAMPLE,
        problems=_SETS,
        changes=True,
        has_etag=True,
    ),
    Route("GET", "/v1/usage", tree.get_usage, "What groups and users have used and hold.", v.UsageView),
    Route("GET", "/v1/policies", policies.list_policies, "Every pool's policy.", v.PoliciesView),
    Route(
        "GET",
        "/v1/policies/{pool}",
        policies.get_policy,
        "How one pool decides.",
        v.PolicyView,
        problems=("not_found",),
        has_etag=True,
    ),
    Route(
        "PUT",
        "/v1/policies/{pool}",
        policies.put_policy,
        "Change how a pool decides, from the next round on.",
        v.DoneView,
        query=(_DRY_RUN, _WHY),
        body=Policy,
        example=POLICY_EXAMPLE,
        problems=_SETS,
        changes=True,
        has_etag=True,
    ),
    Route(
        "PUT",
        "/v1/pools/{pool}",
        pools.put_pool,
        "Make or change a pool; its machines name it themselves.",
        v.DoneView,
        body=Pool,
        example=POOL_EXAMPLE,
        problems=_SETS,
        changes=True,
    ),
    Route("GET", "/v1/tokens", tokens.list_tokens, "Tokens the caller may see.", v.TokensView),
    Route(
        "POST",
        "/v1/tokens",
        tokens.issue_token,
        "Make a token; its text is shown this once.",
        v.IssuedTokenView,
        status=201,
        body=TOKEN_FILE,
        example=TOKEN_EXAMPLE,
        problems=_CHANGES,
        changes=True,
    ),
    Route(
        "DELETE",
        "/v1/tokens/{digest}",
        tokens.revoke_token,
        "Make a token useless.",
        v.DoneView,
        problems=("forbidden", "not_found", "unavailable"),
        changes=True,
    ),
    Route("GET", "/v1/whoami", tokens.whoami, "What the token says.", v.WhoamiView),
    Route("GET", "/v1/cluster", machines.get_cluster, "Totals over everything.", v.ClusterView),
)

SERVICE_ROUTES = (
    Route("GET", "/openapi.json", service.openapi, "This document.", "application/json", is_open=True),
    Route("GET", "/version", service.version, "What runs here.", v.VersionView, is_open=True),
    Route("GET", "/livez", service.livez, "The process answers.", TEXT, is_open=True),
    Route("GET", "/readyz", service.readyz, "It can do its work.", TEXT, problems=("unavailable",), is_open=True),
    Route(
        "GET",
        "/metrics",
        service.metrics,
        "Prometheus metrics, for administrators and all-seeing readers.",
        TEXT,
        problems=("forbidden",),
    ),
)

ROUTES = JOB_ROUTES + PLATFORM_ROUTES + SERVICE_ROUTES
"""In the order in which addresses are tried."""
