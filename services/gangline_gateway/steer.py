"""How jobs are changed after their submission: edited, moved, put first, resized, run again."""

from msgspec.structs import replace

from gangline_core.door.arrays import lookup
from gangline_core.door.edits import JobEdit
from gangline_core.door.job_rights import EditProblem, Standing, top_scope
from gangline_core.job import Job
from gangline_core.spec import ArraySpec, JobSpec
from gangline_gateway.access import is_head
from gangline_gateway.call import Answer, Call, fields_of
from gangline_gateway.jobs import shown_job, steered_job
from gangline_gateway.problems import ProblemError, invalid
from gangline_gateway.settings import why_of
from gangline_gateway.show import job_view
from gangline_gateway.submit import submit_again
from gangline_wire.fields import flag, text, whole
from gangline_wire.jobfile_order import read_moment
from gangline_wire.jobfile_place import read_labels
from gangline_wire.jobfile_role import read_token
from gangline_wire.jobfile_terms import duration, read_priority
from gangline_wire.requests import EditJob, SetSize, TopJob
from gangline_wire.views import DoneView, JobView

EDIT_FIELDS = {
    "pool": ("pool", read_token),
    "level": ("level", read_token),
    "priority": ("priority", read_priority),
    "time_limit": ("time_limit_s", duration("duration_s", least=1)),
    "estimate": ("estimate_s", duration("duration_s", least=1)),
    "not_before": ("not_before_ms", read_moment),
    "deadline": ("deadline_ms", read_moment),
    "retries": ("retries", whole("retries")),
    "preemptible": ("preemptible", flag),
    "checkpoints": ("checkpoints", flag),
    "labels": ("labels", read_labels),
    "at_most": ("at_most", whole("array_elements")),
}
"""Field of an edit, called as in a job file -> (field of JobEdit, reader)."""
TOP_FIELDS = {"among": ("among", text), "why": ("why", text)}
SIZE_FIELDS = {"role": ("role", read_token), "size": ("size", whole("tasks")), "why": ("why", text)}


async def edit_job(call: Call) -> JobView:
    """PATCH /v1/jobs/{id}: only the fields that are given change."""
    job = steered_job(call)
    edit = JobEdit(**fields_of(await call.document(), EDIT_FIELDS))
    request = EditJob(
        job=job.id,
        edit=edit,
        by=call.caller.user,
        standing=standing(call, job).name.lower(),
        why=why_of(call),
        dry_run=call.flag("dry_run"),
    )
    await call.desk.asker.change(request)
    now = lookup(call.state, job.id) or job
    return job_view(call.state, now, tuple(call.state.tasks_of(now)))


async def top_job(call: Call) -> Answer:
    """POST /v1/jobs/{id}/top: first among one's own jobs, the group's, or all."""
    job = steered_job(call)
    fields = fields_of(await call.document(may_be_empty=True), TOP_FIELDS)
    scope = top_scope(job, standing(call, job), fields.get("among", ""))
    if isinstance(scope, EditProblem):
        raise (
            ProblemError("forbidden", scope.message)
            if scope.kind == "forbidden"
            else invalid(scope.field, scope.message)
        )
    request = TopJob(job=job.id, among=scope, by=call.caller.user, why=fields.get("why", ""))
    reply = await call.desk.asker.change(request)
    return Answer(DoneView(seq=reply.seq), status=202)


async def resize_job(call: Call) -> Answer:
    """POST /v1/jobs/{id}/resize: a size within the job's bounds; 0 leaves it to the policy again."""
    job = steered_job(call)
    fields = fields_of(await call.document(), SIZE_FIELDS)
    if "size" not in fields:
        raise invalid("size", "is missing")
    request = SetSize(job=job.id, size=fields["size"], role=fields.get("role", ""), by=call.caller.user)
    reply = await call.desk.asker.change(request)
    return Answer(DoneView(seq=reply.seq), status=202)


async def rerun_job(call: Call) -> Answer:
    """POST /v1/jobs/{id}/rerun: the same job once more, as a new one; of an array's element only that element."""
    job = shown_job(call)
    if not call.caller.may_change:
        raise ProblemError("forbidden", "A read-only token changes nothing.")
    if job.spec.secrets:
        raise ProblemError("conflict", "Its secrets were shredded when it ended; submit its file again.", errors=[])
    return await submit_again(call, again(job))


def again(job: Job) -> JobSpec:
    """What is asked for when a job shall run once more: without what was only for the first time."""
    spec = job.spec
    if job.array and spec.array is not None:
        index = job.array_index
        spec = replace(spec, array=ArraySpec(ranges=((index, index, 1),)))
    name = "" if spec.name.startswith("job-") else spec.name
    return replace(spec, name=name, after=(), not_before_ms=0, deadline_ms=0, hold=False)


def standing(call: Call, job: Job) -> Standing:
    """What the caller is to the job."""
    if call.caller.is_admin:
        return Standing.ADMIN
    return Standing.HEAD if is_head(call.state, call.caller, job.spec.group) else Standing.OWNER
