"""Shortest predicted GPU time first: QSSF of Helios (SC 2021), with the rolling estimate of `foresight.predict`."""

from gangline_core.foresight.predict import predicted_seconds
from gangline_core.ordering.scored import Scored, in_levels
from gangline_core.scoring.columns import GPU_MILLI
from gangline_core.scoring.waiting import Waiting


def shortest_predicted(waiting: Waiting, first: int) -> Scored:
    """The score is the queue level, less the GPU-hours that the job is predicted to take."""
    gpus = waiting.field(GPU_MILLI) / 1000
    return in_levels(waiting, "predicted_gpu_hours", -gpus * predicted_seconds(waiting) / 3600)
