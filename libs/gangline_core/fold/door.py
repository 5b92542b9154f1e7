"""What the door's later facts do: edits of jobs, a job put first, dated capacity, prices."""

from msgspec.structs import replace

from gangline_core.door.edits import WAITING_ONLY, edited, given
from gangline_core.door.retiming import TIMES
from gangline_core.facts import ClassSet, JobEdited, JobTopped, PricesSet, WindowRemoved, WindowSet
from gangline_core.fold.arrays import edit_array
from gangline_core.job import ENDS, Job, JobState
from gangline_core.state import State
from gangline_core.step import Step


def job_edited(state: State, fact: JobEdited, step: Step) -> None:
    """The terms of an unfinished job change; those of an array change for all its unfinished elements."""
    for element in edit_array(state, fact, step):
        _edit(state, state.kept.jobs[element], fact, step)
    job = state.job(fact.job)
    if job is not None and job.state not in ENDS:
        _edit(state, job, fact, step)
    step.settings = True


def _edit(state: State, job: Job, fact: JobEdited, step: Step) -> None:
    waits = job.state in (JobState.WAITING, JobState.HELD, JobState.SUSPENDED)
    if not waits and WAITING_ONLY & given(fact.edit).keys():
        # It started meanwhile: what only a waiting job has is left as it is.
        fact = replace(fact, edit=replace(fact.edit, **dict.fromkeys(WAITING_ONLY)))
    if waits:
        state.drop_claim(job.id)
    is_waiting = job.state == JobState.WAITING
    spec = edited(job.spec, fact.edit)
    job = replace(job, spec=spec, reason=None if is_waiting else job.reason, edited=True)
    is_retimed = not waits and bool(TIMES & given(fact.edit).keys())
    state.put_job(replace(job, retimed=True) if is_retimed else job)
    if is_retimed:
        for task in state.tasks_of(job):
            # What is expected to come back when is worked out anew, and the task's agent looks at it.
            state.put_task(task)
            step.tasks.append(task.id)


def job_topped(state: State, fact: JobTopped, step: Step) -> None:
    """The job goes before its fellows; whoever was put first last goes first of all."""
    job = state.job(fact.job)
    if job is None or job.state in ENDS:
        return
    state.put_job(replace(job, topped=step.seq, topped_in=fact.among))
    step.settings = True


def window_set(state: State, fact: WindowSet, step: Step) -> None:
    """Dated capacity is kept from now on."""
    state.kept.windows[fact.window.name] = fact.window
    step.settings = True


def window_removed(state: State, fact: WindowRemoved, step: Step) -> None:
    """Dated capacity is given back."""
    state.kept.windows.pop(fact.name, None)
    step.settings = True


def class_set(state: State, fact: ClassSet, step: Step) -> None:
    """A class of users has these settings from now on."""
    state.kept.classes[fact.user_class.name] = fact.user_class
    step.settings = True


def prices_set(state: State, fact: PricesSet, step: Step) -> None:
    """What allocations that end from now on cost."""
    state.kept.prices = dict(fact.milli)
    state.kept.prices_version = fact.version
    step.settings = True
