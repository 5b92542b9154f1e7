"""The door to randomness."""

from gangline_kit.ids import CountedIds, SystemIds


def test_system_tokens_are_long_plain_and_never_repeat() -> None:
    tokens = {SystemIds().token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert all(len(token) == 32 and token.isalnum() for token in tokens)
    assert all(0 <= SystemIds().fraction() < 1 for _ in range(100))


def test_counted_ids_are_the_same_in_every_run() -> None:
    assert [CountedIds("t").token(2), CountedIds("t").token(2)] == ["t0001", "t0001"]
    ids = CountedIds()
    assert (ids.token(1), ids.token(1)) == ("01", "02")
