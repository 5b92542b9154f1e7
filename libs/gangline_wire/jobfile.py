"""How a job file (YAML or JSON, already loaded) becomes a JobSpec: every field checked, every unit read."""

from gangline_core.spec import JobSpec
from gangline_wire.problem import FieldErrorsError


class JobFileError(FieldErrorsError):
    """A job file that cannot be accepted; `errors` lists each wrong field with its path."""


def parse_job(document: object) -> JobSpec:
    """The job the document describes.

    Declared secrets stand in the roles' environments until `gangline_wire.seal.seal` takes them out; `secrets` of
    the answer holds their names.

    Raises:
        JobFileError: at least one field is unknown, missing or wrong.
    """
    raise NotImplementedError
