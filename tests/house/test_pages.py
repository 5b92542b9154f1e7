"""The generated pages say what the code says."""

from pathlib import Path

from draw.__main__ import PAGES, ROOT, stale


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
