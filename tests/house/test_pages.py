"""The generated pages say what the code says."""

from pathlib import Path

from draw.__main__ import PAGES, ROOT, stale
from draw.placement import advice
from gangline_core.placement import PLACERS


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
