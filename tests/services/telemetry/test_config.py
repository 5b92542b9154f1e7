"""What the telemetry service may be told by its environment."""

import pytest

from gangline_kit.config import ConfigError, load
from gangline_telemetry.config import Config


@pytest.mark.parametrize("name", ["LOSS_S", "CHECK_S", "SUMMARY_S", "RELAPSES", "BLACK_HOLE_JOBS"])
def test_a_time_or_count_of_nothing_is_refused(name: str) -> None:
    # With 0 as the loss time every node would be lost at once, and again as soon as it came back.
    with pytest.raises(ConfigError, match=f"^GANGLINE_TELEMETRY_{name} is 0; it must be a number above 0$"):
        load(Config, "telemetry", {f"GANGLINE_TELEMETRY_{name}": "0"})
