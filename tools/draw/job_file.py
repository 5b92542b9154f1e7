"""Draws docs/job-file.md: what a user may write to describe a job."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from draw.markdown import code, document, table
from gangline_wire.jobfile_examples import CHAIN_EXAMPLE, EXAMPLE, ROLES_EXAMPLE
from gangline_wire.jobfile_schema import JOB_PROPERTIES, ROLE_PLACE, ROLE_PROPERTIES

Properties = Mapping[str, Mapping[str, Any]]


def page() -> str:
    """The page."""
    return document(
        "Job files",
        "YAML or JSON, submitted with `gangline submit FILE` or to `POST /v1/jobs`. A job is a gang: its tasks start "
        "together or not at all. Unknown fields are refused, naming the nearest known one. Memory needs a unit "
        "(`16Gi`, `500M`), counts may be fractions (`0.5`, `500m`), durations are seconds or text (`1h30m`).",
        block(EXAMPLE),
        "Programs are found in the `PATH` of the machine's agent unless `env` has one, or named by their whole path, "
        "and start in `workdir`. `gangline run` and batch scripts pass on your `PATH`, your Python environment and the "
        "folder that you stand in; a job file says them itself, and so does the same whoever submits it.",
        "With several roles, each has its own tasks, command and resources:",
        block(ROLES_EXAMPLE),
        "A file may hold several jobs, which are admitted together or not at all. They have no numbers yet, so `after` "
        "names those that stand before:",
        blocks(CHAIN_EXAMPLE),
        "The same holds for several files of one `gangline submit`, for `POST /v1/jobs:batch` and for `submit_many`. "
        "An element of an array before it is `NAME_7`. A name that nobody before has, that two have, or that only "
        "comes later is refused, with `--dry-run` as well; so is one in a call of a single job.",
        "## The job",
        fields(JOB_PROPERTIES),
        "## A role",
        "In an entry of `roles`, together with its `name`; or at the top, when the job has only one.",
        fields(ROLE_PROPERTIES),
        "Only in an entry of `roles`, where roles shall be on different nodes, such as a launcher without GPUs:",
        fields(ROLE_PLACE),
    )


def block(example: Mapping[str, Any]) -> str:
    """An example as YAML."""
    return f"```yaml\n{yaml.safe_dump(dict(example), sort_keys=False, width=100)}```"


def blocks(examples: Sequence[Mapping[str, Any]]) -> str:
    """Several examples as one file."""
    return f"```yaml\n{yaml.safe_dump_all(map(dict, examples), sort_keys=False, width=100)}```"


def fields(properties: Properties) -> str:
    """A table of fields."""
    rows = ((code(name), field["description"], examples(field)) for name, field in properties.items())
    return table(("Field", "Meaning", "For example"), rows)


def examples(field: Mapping[str, Any]) -> str:
    """A field's examples, as they would stand in YAML, or the values it may have."""
    shown = field.get("examples") or field.get("enum") or []
    return ", ".join(
        code(yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).split("\n")[0])
        for value in shown
    )
