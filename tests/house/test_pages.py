"""The generated pages say what the code says."""

from pathlib import Path

from draw.__main__ import PAGES, ROOT, stale


def test_every_generated_page_is_fresh() -> None:
    assert stale(ROOT / "docs") == []


def test_a_page_that_was_edited_by_hand_is_stale(tmp_path: Path) -> None:
    for name, page in PAGES.items():
        (tmp_path / name).write_text(page(), encoding="utf-8")
    (tmp_path / "states.md").write_text("my own words", encoding="utf-8")
    (tmp_path / "reasons.md").unlink()
    assert sorted(stale(tmp_path)) == ["reasons.md", "states.md"]
