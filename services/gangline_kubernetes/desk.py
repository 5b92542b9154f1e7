"""Job objects: each becomes a job of the log once, follows its life in the status, and goes when its tasks are gone."""

import logging
from typing import Any

from msgspec.structs import replace

from gangline_core.counted import counted
from gangline_core.door.arrays import lookup
from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job
from gangline_core.reasons import sentence
from gangline_core.spec import JobSpec
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kubernetes import elements
from gangline_kubernetes.api import MERGE, Api, RefusedError, path_of
from gangline_kubernetes.asking import ask
from gangline_kubernetes.config import Config
from gangline_kubernetes.due import Due
from gangline_kubernetes.happenings import Happenings
from gangline_kubernetes.manifests import Home
from gangline_kubernetes.names import GROUP_VERSION, JOB_FINALIZER
from gangline_kubernetes.objects import JobObject, Namespace
from gangline_kubernetes.own_writes import write_status
from gangline_kubernetes.ownership import (
    LABEL_KEPT,
    LABEL_NAMESPACE,
    LABEL_OWNER,
    LABEL_PODS,
    LABEL_UID,
    Fault,
    at_home,
    hidden,
    owned,
)
from gangline_kubernetes.secret_refs import LABEL_REFS, Ref, split, text_of
from gangline_kubernetes.statuses import refused_status, status_of, word_of
from gangline_wire.jobfile import JobFileError, parse_job
from gangline_wire.requests import Admitted, CancelJob, Denied, Refused, SetHold, SetSize, SubmitJobs
from gangline_wire.seal import seal

log = logging.getLogger(__name__)

SAME_WORD_S = 30.0
"""A status whose word stays the same is written again for its numbers at most this often."""
ARRAY_S = 5.0
"""The same for the numbers of an array, which change with every element."""
TICK_S = 0.25
UNFINISHED_TRIES_S = 5.0
REFUSED_TRIES_S = 60.0
"""A refused object is tried again this often when it may be admitted later: its namespace or group may be made."""
OPEN = (
    "values that look secret are sealed in the job, but whoever may read this object reads them:"
    " keep them in a Secret, and say secrets: {NAME: {secretKeyRef: {name: ..., key: ...}}}"
)
SUBMIT_MAX = 200
"""Jobs that are submitted at the same time."""


def by(cluster: str) -> str:
    """Whom the log names as the one who submitted a cluster's jobs; no token can be of this user."""
    return f"kubernetes:{cluster}"


class Desk:
    """What is known of every Job object, and of the job that is its."""

    def __init__(self, site: Site, config: Config, api: Api) -> None:
        """Nothing is done before `work_for_ever`."""
        self.site = site
        self.config = config
        self.api = api
        self.objects: dict[str, JobObject] = {}
        """By uid."""
        self.namespaces: dict[str, Namespace] = {}
        self.jobs: dict[str, JobId] = {}
        """Job of each object, or its array as a whole, by uid."""
        self.due = Due(site.clock, self._handle, name="object", tick_s=TICK_S, most=SUBMIT_MAX)
        """Objects to look at, by uid."""
        self.written: dict[str, tuple[float, str]] = {}
        """When each status was last written, and its word."""
        self.is_synced = False
        self.happenings = Happenings(site, api)

    @property
    def state(self) -> State:
        """The fold."""
        return self.site.follower.state

    def home(self, job: Job) -> Home | None:
        """Where the job's pods belong, when it came from an object of this cluster."""
        if job.submitted_by != by(self.config.cluster):
            return None
        found = self.objects.get(job.spec.labels.get(LABEL_UID, ""))
        namespace = job.spec.labels.get(LABEL_NAMESPACE, "")
        return Home(namespace=namespace, owner=found.metadata if found is not None else None)

    # --- what the watch and the log tell ------------------------------------------------------------------

    def hear(self, before: JobObject | None, after: JobObject | None) -> None:
        """A Job object came, changed or went."""
        one = after or before
        assert one is not None
        uid = one.metadata.uid
        if after is None:
            self.objects.pop(uid, None)
            self.written.pop(uid, None)
        else:
            self.objects[uid] = after
            if before is None or is_asked_anew(before, after):
                self.due.now(uid)
        self.due.soon(uid)

    def hear_namespace(self, before: Namespace | None, after: Namespace | None) -> None:
        """A namespace came, changed or went; refused jobs of it may be looked at again."""
        one = after or before
        assert one is not None
        name = one.metadata.name
        if after is None:
            self.namespaces.pop(name, None)
            return
        self.namespaces[name] = after
        self.due.hasten(uid for uid, found in self.objects.items() if found.metadata.namespace == name)

    def note(self, message: Message, step: Step) -> None:
        """The log knows something new about jobs."""
        for moved in step.moves:
            self._touch(moved.job)
        for array in step.arrays:
            self._touch(array)
        if step.rounds or step.decided:
            for pool in dict.fromkeys((*step.rounds, *step.decided)):
                for job in self.state.waiting.get(pool, ()):
                    self._touch(job)

    def _touch(self, job_id: JobId) -> None:
        job = lookup(self.state, job_id)
        is_others = job is not None and (LABEL_PODS in job.spec.labels or LABEL_OWNER in job.spec.labels)
        if job is not None and job.submitted_by == by(self.config.cluster) and not is_others:
            uid = job.spec.labels.get(LABEL_UID, "")
            # An element speaks for nobody but its array.
            self.jobs[uid] = JobId(job.array or job_id)
            self.due.soon(uid)

    def take_over(self) -> None:
        """Find the jobs of all objects in the log, and look at everything once."""
        self.jobs.clear()
        for name in (*self.state.kept.arrays, *self.state.kept.jobs):
            self._touch(name)
        self.due.soon(*self.objects)
        self.is_synced = True

    # --- acting -------------------------------------------------------------------------------------------

    async def work_for_ever(self) -> None:
        """Look at every object about which something is new; several at a time, each by one hand."""
        await self.due.work_for_ever()

    async def _handle(self, uid: str) -> None:
        try:
            await self._look(uid)
        except (RefusedError, TemporaryError) as error:
            log.warning("job object %s: %s", uid, error)
            is_full = isinstance(error, RefusedError) and error.is_too_large
            pause_s = REFUSED_TRIES_S if is_full else UNFINISHED_TRIES_S
            self.due.after(uid, pause_s)
            if is_full and uid in self.objects:
                message = f"the server takes no larger object, so nothing can be written to it: {error}"
                await self.happenings.tell(self.objects[uid].metadata, "TooLarge", message, is_warning=True)

    async def _look(self, uid: str) -> None:
        """Bring one object and its job together."""
        found = self.objects.get(uid)
        job = lookup(self.state, self.jobs[uid]) if uid in self.jobs else None
        if found is None:
            # Somebody took our finalizer off; whoever deletes an object wants its job to end.
            if self.is_synced and job is not None and not elements.is_ending(self.state, job):
                await self._cancel(job, "its Job object is gone")
        elif found.metadata.deletion_timestamp:
            await self._let_go(found, job)
        elif job is not None:
            await self._follow(found, job)
        elif not found.status.get("job"):
            await self._submit(found)

    async def _submit(self, found: JobObject) -> None:
        """Ask for admission; the object's uid makes a repeat give the same job."""
        meta = found.metadata
        try:
            spec, refs = read_spec(found, self.config)
        except JobFileError as error:
            message = "; ".join(f"{one.path}: {one.message}" for one in error.errors)
            await self._refuse(found, "Invalid", message, again_s=0)
            return
        mine = owned(spec, meta, self.namespaces.get(meta.namespace), self.config)
        if isinstance(mine, Fault):
            await self._refuse(found, "Forbidden", f"{mine.field}: {mine.message}", again_s=REFUSED_TRIES_S)
            return
        if JOB_FINALIZER not in meta.finalizers:
            await self._set_finalizers(found, (*meta.finalizers, JOB_FINALIZER))
        sealed, secrets = seal(mine)
        if refs:
            sealed = replace(sealed, labels={**sealed.labels, LABEL_REFS: text_of(refs)})
        request = SubmitJobs(
            jobs=(sealed,),
            submit_id=f"{by(self.config.cluster)}:{meta.uid}",
            by=by(self.config.cluster),
            secrets=(secrets,) if secrets else (),
            hidden=hidden(self.state, mine, self.namespaces.get(meta.namespace), self.config),
        )
        match await ask(self.site, request):
            case Admitted(jobs=jobs):
                self.jobs[meta.uid] = JobId(jobs[0])
                self.due.soon(meta.uid)
                if secrets:
                    await self.happenings.tell(meta, "SecretsInPlain", OPEN, is_warning=True)
            case Refused(refusals=refusals):
                reason = refusals[0].reason
                await self._refuse(found, reason.code.value, sentence(reason), again_s=REFUSED_TRIES_S)
            case Denied(message=message):
                await self._refuse(found, "Invalid", message, again_s=0)
            case other:
                raise TemporaryError(f"admission answered {type(other).__name__}")

    async def _refuse(self, found: JobObject, code: str, message: str, *, again_s: float) -> None:
        meta = found.metadata
        if again_s:
            self.due.after(meta.uid, again_s)
        if found.status.get("message") == message and found.status.get("observedGeneration") == meta.generation:
            return
        now_ms = self.site.clock.now_ms()

        def status(now: JobObject) -> dict[str, Any]:
            """Why this generation was refused."""
            return refused_status(code, message, now.status, generation=meta.generation, now_ms=now_ms)

        await write_status(self.api, self._path(found), found, status)
        await self.happenings.tell(found.metadata, "Refused", message, is_warning=True)

    async def _follow(self, found: JobObject, job: Job) -> None:
        """The status follows the job; holding and releasing the object does so with the job."""
        wants_hold = bool(found.spec.get("hold", False))
        is_held = elements.is_held(self.state, job)
        observed = found.status.get("observedGeneration", found.metadata.generation)
        # Somebody else may hold or release it meanwhile: only another word in the object is a wish.
        is_wish = observed != found.metadata.generation and wants_hold != found.status.get("hold", job.spec.hold)
        if is_wish and wants_hold != is_held and job.state not in ENDS:
            await ask(self.site, SetHold(job=int(job.id), held=wants_hold, by=by(self.config.cluster)))
            job = lookup(self.state, job.id) or job
        if observed != found.metadata.generation:
            await self._resize(found, job)
            if is_other(found, job, self.config):
                message = f"job {job.id} stays as it was admitted: only hold and tasks can be changed; make a new Job"
                await self.happenings.tell(found.metadata, "ChangeIgnored", message, is_warning=True)
        word, now_s = word_of(job), self.site.clock.monotonic_s()
        last_s, last_word = self.written.get(found.metadata.uid, (-SAME_WORD_S, ""))
        change = f"{job.resize.number}{job.resize.stage}" if job.resize is not None else ""
        key = f"{job.state}/{word}/{job.attempt}/{found.metadata.generation}/{len(job.tasks)}/{change}"
        numbers = elements.numbers(self.state, job)
        if last_word == f"{key}{numbers}" and now_s - last_s < SAME_WORD_S:
            return
        if numbers and last_word.startswith(f"{key}(") and now_s - last_s < ARRAY_S:
            self.due.at(found.metadata.uid, last_s + ARRAY_S)
            return
        generation, now_ms = found.metadata.generation, self.site.clock.now_ms()

        def status(now: JobObject) -> dict[str, Any]:
            """The job as it is, for the generation that was looked at."""
            tasks = elements.tasks_of(self.state, job)
            made = status_of(self.state, job, tasks, now.status, generation=generation, now_ms=now_ms)
            return made | elements.counts(self.state, job) | {"hold": wants_hold}

        await write_status(self.api, self._path(found), found, status)
        self.written[found.metadata.uid] = (now_s, f"{key}{numbers}")
        if word != found.status.get("reason") or is_news(found, job):
            await self.happenings.of_job(found, job)

    async def _resize(self, found: JobObject, job: Job) -> None:
        """An elastic job whose object names another number of tasks shall have that size, as by `gangline resize`."""
        wanted = found.spec.get("tasks")
        (role,) = job.spec.roles if len(job.spec.roles) == 1 else (None,)
        is_one = role is not None and role.is_elastic and job.spec.array is None
        if role is None or not is_one or not isinstance(wanted, int) or job.state in ENDS:
            return
        if wanted == job.asked.get(role.name, role.count):
            return
        match await ask(self.site, SetSize(job=int(job.id), size=wanted, role=role.name, by=by(self.config.cluster))):
            case Denied(message=message):
                await self.happenings.tell(found.metadata, "SizeRefused", message, is_warning=True)
            case _:
                await self.happenings.tell(found.metadata, "SizeAsked", counted(wanted, "task"))

    async def _let_go(self, found: JobObject, job: Job | None) -> None:
        """A deleted object ends its job, and goes when nothing of it runs any more."""
        if job is not None and job.state not in ENDS:
            if not elements.is_ending(self.state, job):
                await self._cancel(job, "its Job object was deleted")
            if (lookup(self.state, job.id) or job).state not in ENDS:
                return
        if JOB_FINALIZER in found.metadata.finalizers:
            rest = tuple(name for name in found.metadata.finalizers if name != JOB_FINALIZER)
            await self._set_finalizers(found, rest)

    async def _cancel(self, job: Job, why: str) -> None:
        await ask(self.site, CancelJob(job=int(job.id), by=by(self.config.cluster), why=why))

    async def _set_finalizers(self, found: JobObject, finalizers: tuple[str, ...]) -> None:
        meta = found.metadata
        body = {"metadata": {"finalizers": list(finalizers), "resourceVersion": meta.resource_version}}
        try:
            await self.api.call("PATCH", self._path(found), body, form=MERGE)
        except RefusedError as error:
            if not error.is_gone and not error.is_another:
                raise

    def _path(self, found: JobObject) -> str:
        meta = found.metadata
        return path_of(GROUP_VERSION, "jobs", namespace=meta.namespace, name=meta.name)


def is_asked_anew(before: JobObject, after: JobObject) -> bool:
    """True when somebody changed what the object asks for, or deleted it."""
    old, new = before.metadata, after.metadata
    return old.generation != new.generation or old.deletion_timestamp != new.deletion_timestamp


def is_news(found: JobObject, job: Job) -> bool:
    """True when it made way or changed its size since its status was written."""
    resizes = job.resize.number if job.resize is not None else 0
    known = (int(found.status.get(field, 0)) for field in ("preemptions", "resizes"))
    return any(now > before for now, before in zip((job.preemptions, resizes), known, strict=True))


def read_spec(found: JobObject, config: Config) -> tuple[JobSpec, dict[str, Ref]]:
    """The job that the object describes, in the pool of its cluster's nodes if it names none, and its secret values.

    Raises:
        JobFileError: it is no job file.
    """
    document, refs = split(found.spec)
    spec = parse_job(document)
    return (spec if "pool" in document else replace(spec, pool=config.pool)), refs


def is_other(found: JobObject, job: Job, config: Config) -> bool:
    """True when the object now asks for something else than the job was admitted with."""
    try:
        spec, refs = read_spec(found, config)
        asked, _ = seal(at_home(spec, config))
    except JobFileError:
        return True
    kept = job.spec
    if text_of(refs) != kept.labels.get(LABEL_REFS, ""):
        return True
    if len(asked.roles) == 1 and kept.roles and kept.roles[0].is_elastic:
        # Another number of tasks is a wish for a size, not another job.
        asked = replace(asked, roles=(replace(asked.roles[0], count=kept.roles[0].count),))
    # Whose it is came from its namespace, and admission fills in what is left open.
    asked = replace(
        asked,
        name=kept.name,
        group=kept.group,
        user=kept.user,
        labels=kept.labels,
        preemptible=asked.preemptible and (kept.preemptible or LABEL_KEPT not in kept.labels),
        hold=kept.hold,
        time_limit_s=asked.time_limit_s or kept.time_limit_s,
        after=kept.after if any(one.index >= 0 for one in asked.after) else asked.after,
    )
    return asked != kept
