"""The generated pages say what the code says."""

from pathlib import Path

from draw import asyncapi, messages
from draw.__main__ import PAGES, ROOT, stale
from draw.placement import advice
from gangline_core.placement import PLACERS
from gangline_wire import subjects
from gangline_wire.lanes import CARRIERS


def test_every_generated_page_is_fresh() -> None:
    assert stale(ROOT / "docs") == []


def test_a_page_that_was_edited_by_hand_is_stale(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, page in PAGES.items():
        (docs / name).parent.resolve().mkdir(parents=True, exist_ok=True)
        (docs / name).resolve().write_text(page(), encoding="utf-8")
    (docs / "states.md").write_text("my own words", encoding="utf-8")
    (docs / "reasons.md").unlink()
    assert sorted(stale(docs)) == ["reasons.md", "states.md"]


def test_every_placement_is_explained_by_the_guide_or_by_its_own_words() -> None:
    for name, placer in PLACERS.items():
        _, source, use = advice(name, placer)
        assert source
        assert use.endswith("."), name


def test_a_new_placement_stands_on_its_page_without_a_line_anywhere_else() -> None:
    def corner_first() -> None:
        """Fill the room from its corners.

        More of it.
        """

    assert advice("corner_first", corner_first) == ("`corner_first`", "Gangline", "Fill the room from its corners.")


def test_the_bus_is_described_whole_to_programs_that_follow_it() -> None:
    document = asyncapi.document()
    known = {value for name, value in vars(subjects).items() if name.isupper()}
    addresses = [channel["address"] for channel in document["channels"].values()]
    assert {one for one in known if not any(address.startswith(one) for address in addresses)} == set()
    assert {subjects.API_ADMISSION, subjects.API_HISTORY} <= set(addresses)
    assert "TaskExited" in document["channels"]["log.kubernetes"]["description"]


def test_the_page_of_messages_says_what_a_cluster_tells_and_what_is_written_as_an_array() -> None:
    page = messages.page()
    (row,) = (line for line in page.splitlines() if line.startswith("| `kubernetes.<cluster>` |"))
    assert all(f"[{fact.__name__}](" in row for fact in CARRIERS)
    candidate = page.partition("### Candidate\n")[2].partition("### ")[0]
    assert "array of these values" in candidate
