"""Draws docs/states.md: a job's states, its legal moves, and what other systems call them."""

from draw.markdown import code, document, table
from draw.structs import constants
from gangline_core import job
from gangline_core.job import ENDS, KUBERNETES_CONDITIONS, LIVE, MOVES, OUTCOME_RANK, SLURM_CODES, JobState
from gangline_core.sizes.resizing import STAGES


def page() -> str:
    """The page."""
    return document(
        "States of a job",
        "A job is in exactly one state. Only the moves below exist; anything else is refused by "
        "`gangline_core.job.move`: it raises in tests and is set aside with an alarm in production.",
        diagram(),
        "## States, and what Slurm and Kubernetes users call them",
        table(("State", "Holds resources", "Has ended", "Slurm", "Kubernetes condition"), map(row, JobState)),
        "## Moves",
        table(
            ("From", "Move", "To"),
            ((code(before), code(move), code(after)) for (before, move), after in MOVES.items()),
        ),
        "## How far a change of size has come",
        "An elastic job also carries its present change of size, or how the last one ended (see "
        "[elastic.md](elastic.md)); the moves stand in `gangline_core.sizes.resizing`.",
        table(
            ("From", "Event", "To"),
            ((code(before), code(event), code(after)) for (before, event), after in STAGES.items()),
        ),
        "## What a stopping job becomes",
        constants(job)["OUTCOME_RANK"].meaning + " Capacity returns only when the agent has seen the GPUs empty; "
        "with the last task gone the job makes the move of its outcome.",
        table(("Outcome", "Strength"), ((code(outcome), str(rank)) for outcome, rank in OUTCOME_RANK.items())),
    )


def row(state: JobState) -> tuple[str, ...]:
    """One state's line of the table."""
    claims = ("yes" if state in LIVE else "no", "yes" if state in ENDS else "no")
    return (code(state), *claims, code(SLURM_CODES[state]), code(KUBERNETES_CONDITIONS[state]))


def diagram() -> str:
    """The moves as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> waiting: admitted", "    [*] --> held: admitted on hold"]
    lines += [f"    {before} --> {after}: {move}" for (before, move), after in MOVES.items()]
    lines += [f"    {end} --> [*]" for end in JobState if end in ENDS]
    return "\n".join((*lines, "```"))
