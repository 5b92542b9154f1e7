"""Amounts and durations: one documented grammar, everything else refused (cases M01, M02, R02)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline_wire.durations import read_seconds, show_seconds
from gangline_wire.problem import WrongValueError
from gangline_wire.quantity import read_mebibytes, read_milli, show_milli

HARD = [-1, -0.5, float("nan"), float("inf"), True, False, None, "", " 2", "2 ", "0x2", "٢", "-1", "+2", "2e3", "two",
        [], {}, "1,5", "2\n", "²", "1_000", "9" * 400]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "milli"),
    [(2, 2000), ("2", 2000), (2.0, 2000), (0, 0), (0.5, 500), ("0.5", 500), ("500m", 500), (0.1, 100), ("1.5", 1500),
     (0.333, 333), ("0", 0)],
)  # fmt: skip
def test_a_count_reads_the_same_however_it_is_written(written: object, milli: int) -> None:
    assert read_milli(written) == milli


@pytest.mark.parametrize("written", [*HARD, 0.3333, "0.3333", "1.5m", "500 m", "1Gi"])
def test_anything_else_is_no_count(written: object) -> None:
    with pytest.raises(WrongValueError):
        read_milli(written)


@pytest.mark.parametrize(
    ("written", "mebibytes"),
    [("1.5Gi", 1536), ("1536Mi", 1536), ("1Gi", 1024), ("1G", 954), ("16Gi", 16_384), ("1Ki", 1), ("1k", 1), (0, 0),
     ("17179869184k", 16_384_000), ("1Ti", 1 << 20), ("0Gi", 0), ("1Pi", 1 << 30)],
)  # fmt: skip
def test_memory_is_kept_in_whole_mebibytes_rounded_up(written: object, mebibytes: int) -> None:
    assert read_mebibytes(written) == mebibytes


@pytest.mark.parametrize(
    "written", [*HARD, 16, 1.5, "16", 17179869184, "128m", "1Zi", "16GB", "16gi", "Gi", "1 Gi", "1.Gi", 1e30]
)
def test_memory_without_a_unit_or_with_another_is_refused(written: object) -> None:
    with pytest.raises(WrongValueError):
        read_mebibytes(written)


@pytest.mark.parametrize("written", [0.0001, "0.0001", "1.5m", "2.00001"])
def test_what_is_too_fine_is_not_called_no_number(written: object) -> None:
    with pytest.raises(WrongValueError, match="more than three decimals"):
        read_milli(written)


def test_a_bare_number_of_memory_says_how_to_write_it() -> None:
    with pytest.raises(WrongValueError, match='"16Gi"'):
        read_mebibytes(16)
    for wrong in (-1, 1e30, float("nan"), 10**400):
        with pytest.raises(WrongValueError, match="no amount of memory"):
            read_mebibytes(wrong)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(90, 90), ("90", 90), ("90s", 90), ("1m30s", 90), ("90m", 5400), ("1.5h", 5400), (90.0, 90), ("1d12h30m", 131_400),
     (0, 0), ("0s", 0), ("14d", 14 * 86_400)],
)  # fmt: skip
def test_a_duration_reads_the_same_however_it_is_written(written: object, seconds: int) -> None:
    assert read_seconds(written) == seconds


@pytest.mark.parametrize("written", [*HARD, "14-0", "1-12:30:00", "1:30", "P1D", "1.5s", "s", "1h 30m", "30m1h", 1.5])
def test_other_ways_to_write_a_duration_are_refused(written: object) -> None:
    with pytest.raises(WrongValueError):
        read_seconds(written)


@given(st.integers(0, 10**9))
def test_a_shown_duration_reads_back_as_itself(seconds: int) -> None:
    assert read_seconds(show_seconds(seconds)) == seconds


@given(st.integers(0, 10**9))
def test_a_shown_count_reads_back_as_itself(milli: int) -> None:
    assert read_milli(show_milli(milli)) == milli


@given(st.integers(0, 10**9))
def test_an_amount_of_memory_is_the_same_in_every_unit(mebibytes: int) -> None:
    assert read_mebibytes(f"{mebibytes}Mi") == mebibytes == read_mebibytes(f"{mebibytes * 1024}Ki")


@given(st.one_of(st.text(), st.floats(), st.integers(), st.binary(), st.none(), st.booleans()))
def test_no_input_breaks_a_reader(value: object) -> None:
    for reader in (read_milli, read_mebibytes, read_seconds):
        try:
            amount = reader(value)
        except WrongValueError:
            continue
        assert isinstance(amount, int)
        assert not isinstance(amount, bool)
        assert amount >= 0
