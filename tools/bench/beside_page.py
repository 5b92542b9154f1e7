"""The table of `papers_beside` for people: `docs/best-published.md`, with why a value is more than 5 % worse."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.papers_beside import BENCHMARKS, DEFAULT, HIGHER, UNITS, Benchmark, Key, kept

PAGE = Path(__file__).parents[2] / "docs" / "best-published.md"
BAR_PERCENT = 5.0
"""How much worse than the best published value is as good."""


def draw(found: Mapping[Key, float]) -> str:
    """The page."""
    heads = ("benchmark", "metric", "best published", "default", "page", "that page")
    table = [f"| {' | '.join(heads)} |", "|---|---|---|---|---|---|", *_rows(found)]
    return "\n".join([*HEAD, *_legend(), "", *table, "", "More than 5 % worse:", "", *_reasons(found), ""])


def unexplained(found: Mapping[Key, float]) -> set[tuple[str, str]]:
    """Benchmark and page of what is more than 5 % worse in some metric without a reason, or has one for nothing."""
    worse = {
        (name, page.rpartition("/")[2])
        for (name, page, metric), value in found.items()
        if worse_percent(BENCHMARKS[name], metric, value) > BAR_PERCENT
    }
    return worse ^ (WHY.keys() & _measured(found))


def write() -> None:
    """Draw the page of the docs anew from what is kept."""
    PAGE.write_text(draw(kept()), encoding="utf-8")


def worse_percent(one: Benchmark, metric: str, value: float) -> float:
    """By how much a value is worse than the best published one; less than 0 where it is better."""
    best = one.best[metric].value
    return 100 * (best - value if metric in HIGHER else value - best) / best


def _rows(found: Mapping[Key, float]) -> Iterator[str]:
    for name, one in BENCHMARKS.items():
        pages = (DEFAULT, one.recommended)
        for metric, best in one.best.items():
            own = [_cell(one, metric, found.get((name, page, metric))) for page in pages]
            if one.recommended == DEFAULT:
                own[1] = "the default"
            shown = f"{_figure(best.value, metric)} ({best.policy})"
            page = f"`{one.recommended.rpartition('/')[2]}`"
            yield f"| {name} | {metric} | {shown} | {own[0]} | {page} | {own[1]} |"


def _cell(one: Benchmark, metric: str, value: float | None) -> str:
    if value is None:
        return "not run"
    worse = worse_percent(one, metric, value)
    side = "more" if (worse > 0) != (metric in HIGHER) else "less"
    text = f"{_figure(value, metric)} ({abs(worse):.1f} % {side})"
    return f"**{text}**" if worse < 0 else text


def _figure(value: float, metric: str) -> str:
    unit = UNITS.get(metric, "s")
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip()


WHY: dict[tuple[str, str], str] = {
    ("B3", "gangline"): "only in the p99: short jobs have more of the time, and the hundredth that takes longest less.",
    ("B4", "gangline"): (
        "it goes by age and share until a job had 16 GPU-hours, and few of these jobs need so much; those that are "
        "best here share time from the first minute. `shockwave-gangline` is told what others of its kind are told."
    ),
    ("B5.jct", "gangline"): (
        "a job goes to the fastest of the models that are free, waits for none, and moves to a faster one only when "
        "nobody waits for that: on K80 it takes ten times as long as on V100. The `gavel` ordering has all take turns."
    ),
    ("B5.makespan", "gangline"): ("the same."),
    ("B5.makespan", "gavel-makespan"): (
        "makespan and mean are two aims: the published policy with the best makespan has a mean JCT of 61,380 s, that "
        "with the best mean a makespan of 80,748 s. `gavel-water-filling`, ours for the mean, comes to 30,543 s (8.0 "
        "% less than the best) and a makespan of 68,512 s (9.3 % more)."
    ),
    ("B6.trace3", "gangline"): (
        "nobody shares GPUs, and every job has its first 16 GPU-hours by age, before what it needs still counts; then "
        "a quarter of the pool is for who waited for a day."
    ),
    ("B6.trace1", "gangline"): "the same.",
}
"""Why a page is more than 5 % worse than the best published value of some metric, by benchmark and page."""
HEAD = [
    "# The default beside the best published",
    "",
    "<!-- Drawn by `make bench NAME=papers`. -->",
    "",
    "Every metric that a paper or its artefact reports, beside the best that any published policy reached in it, "
    "whichever that is: none is the best in all. The default is the policy of a pool of which nobody set "
    "anything; its jobs say that they go on where they stopped (`checkpoints`), on which all published policies "
    "here count, and of their length what the policies that are best are told (in B2 and B3 nothing). The page beside "
    "it is what `policies/` has for such a cluster; what its jobs say stands in it. "
    "What is better is bold, what is more than 5 % worse is explained below. Each figure was written by the part of "
    "the benchmark that measures it, in single runs, not all of one commit; what no part ran to its end is not run, "
    "also where another one has it: sources, and why ours differ, stand in [the lab](lab.md#papers).",
    "",
]


def _legend() -> Iterator[str]:
    for name, one in BENCHMARKS.items():
        yield f"- **{name}**: {one.about}."


def _reasons(found: Mapping[Key, float]) -> Iterator[str]:
    for (name, page), why in WHY.items():
        if (name, page) in _measured(found):
            yield f"- {name}, `{page}`: {why}"


def _measured(found: Mapping[Key, float]) -> set[tuple[str, str]]:
    """Benchmark and page of all that was."""
    return {(name, page.rpartition("/")[2]) for name, page, _ in found}
