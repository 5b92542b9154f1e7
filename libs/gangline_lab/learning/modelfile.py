"""The file that `gangline lab train` writes: a model, what it is called, and its public score."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gangline_core.foresight.learnt import QUANTILES, ModelError, packed, unpacked, version
from gangline_lab.learning.growing import USUAL, Growth, grow
from gangline_lab.learning.samples import Sample
from gangline_lab.learning.score import Score, scores
from gangline_lab.outside import said
from gangline_lab.words import table
from gangline_wire.codec import encode

TRAINED_PART = 3 / 4
"""The first part of a history trains, by time; the rest is held out and gives the score."""


class ModelFile(Struct, frozen=True):
    """A model as it is kept and handed on."""

    version: str
    """A hash of `model`: two files of one version foretell the same."""
    made_of: str
    jobs_trained: int
    jobs_held_out: int
    scores: tuple[Score, ...]
    """On jobs that came after all that it learnt from."""
    model: str
    """What stands in a policy's field `model`."""
    trained_until_ms: int = 0
    """It learnt from jobs that came up to then."""
    proof: str = ""
    """A hash of all else in the file, the public score included."""


def train(rows: Sequence[Sample], *, made_of: str, growth: Growth = USUAL) -> ModelFile:
    """Learn from the first part of the rows, and score on the rest.

    Raises:
        LearningError: too few rows, or scikit-learn is missing.
    """
    border = rows[0].at_ms + round((rows[-1].at_ms - rows[0].at_ms) * TRAINED_PART) if rows else 0
    first = [row for row in rows if row.at_ms <= border]
    rest = [row for row in rows if row.at_ms > border]
    model = grow(first, made_of=made_of, growth=growth)
    text = packed(model)
    file = ModelFile(
        version=version(text),
        made_of=made_of,
        jobs_trained=len(first),
        jobs_held_out=len(rest),
        scores=scores(model, rest),
        model=text,
        trained_until_ms=border,
    )
    return replace(file, proof=proof_of(file))


def proof_of(file: ModelFile) -> str:
    """What the file's `proof` must be."""
    return sha256(encode(replace(file, proof=""))).hexdigest()[:16]


def unseen(file: ModelFile, rows: Sequence[Sample], history: str) -> list[Sample]:
    """Rows of a history that the model did not learn from: of its own only what came later."""
    return [row for row in rows if history != file.made_of or row.at_ms > file.trained_until_ms]


def read_model(path: Path) -> ModelFile:
    """The model in a file.

    Raises:
        ModelError: it is no such file, or not what its version says.
    """
    try:
        file = msgspec.json.decode(path.read_bytes(), type=ModelFile)
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path.name or path} is no file of gangline lab train ({said(error)})") from error
    if version(file.model) != file.version:
        raise ModelError(f"{path.name} was changed: it says version {file.version}, but is {version(file.model)}")
    if proof_of(file) != file.proof:
        raise ModelError(f"{path.name} was changed: what it says of itself is not what train wrote; train again")
    unpacked(file.model)
    return file


def score_lines(found: Sequence[Score]) -> list[str]:
    """Scores as a table."""
    header = ("of", "predictor", "jobs", "error, middle", "error, mean", "rank", "pinball", "coverage")
    rows = [
        (
            one.head,
            one.predictor,
            f"{one.jobs:,}",
            f"{one.error_middle:.2f}",
            f"{one.error_mean:.2f}",
            f"{one.rank:.2f}",
            f"{one.pinball:.2f}",
            f"{one.coverage:.0%}" if one.coverage else "",
        )
        for one in found
    ]
    about = (
        "Errors and pinball loss are in doublings: 1 is a factor of two. Coverage is the part of the jobs between the "
        f"{QUANTILES[0]} and the {QUANTILES[-1]} % quantile."
    )
    return [*table(header, rows), "", about]


def model_lines(file: ModelFile, name: str) -> list[str]:
    """What was learnt, how good it is, and how it would be used."""
    return [
        f"Model {file.version}: learnt from {file.jobs_trained:,} jobs of {file.made_of}, scored on the "
        f"{file.jobs_held_out:,} that came later.",
        "",
        *score_lines(file.scores),
        "",
        "To use it (nothing was applied):",
        "",
        f"  gangline policy set default predictor=learnt model=@{name}",
        "",
        f'or in a policy page of the lab:  policy: {{predictor: learnt, model: "@{name}"}}',
    ]
