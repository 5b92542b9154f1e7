"""Secrets leave the job at the door: what is written down holds placeholders, the values travel apart."""

from collections.abc import Mapping

from gangline_core.spec import JobSpec


class SecretMissingError(Exception):
    """A placeholder stands for a value that is not there (any more)."""


def seal(spec: JobSpec) -> tuple[JobSpec, dict[str, str]]:
    """The job with placeholders, and the values by name; `secrets` of the new job lists the names."""
    raise NotImplementedError


def unseal(spec: JobSpec, values: Mapping[str, str]) -> JobSpec:
    """The job with its values back in commands and environments.

    Raises:
        SecretMissingError: a value is missing.
    """
    raise NotImplementedError
