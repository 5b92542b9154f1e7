"""Under which name the values that a job was given in secret are kept, outside the log.

A leader of the door that stood still while another took its place may still put something away, under a number that
the other has given to another job. So the name has the epoch of the door that let the job in, which the log tells.
"""

from gangline_core.ids import JobId
from gangline_core.kept import Kept

DOOR = "admission"
"""The lane on which jobs are let in."""


def vault_name(job: JobId, epoch: int) -> str:
    """The name for a job, or for an array as a whole, that is let in in this epoch."""
    return f"{job}.{epoch}"


def vault_names(kept: Kept, job: JobId) -> tuple[str, ...]:
    """Where the values of an unfinished job are: under the first of these names that there is.

    The plain number is what they were kept under before names had an epoch.
    """
    epoch = kept.sealed.get(job)
    return () if epoch is None else (vault_name(job, epoch), str(job))
