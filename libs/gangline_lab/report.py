"""One HTML page about a log: key numbers, plots, waits with their reasons. It needs nothing but itself."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from gangline_core.counted import counted
from gangline_core.spec import GPU_MILLI
from gangline_lab.chronicle import Chronicle
from gangline_lab.plots import Bars, Line, bars, over_time
from gangline_lab.pool_use import Moment, held_share
from gangline_lab.replay import ReplayReport
from gangline_lab.stretches import Stretches
from gangline_lab.summary import Spread, Summary
from gangline_lab.words import SPREAD_HEADER, duration, replay_lines, spread_row

BUCKETS = 240
"""Values of a plot over time."""

STYLE = """
:root{--ink:#1d2430;--dim:#5b6675;--paper:#fff;--line:#e3e7ec;--blue:#2f6fde;--orange:#d9762b;--grey:#9aa4b2;
--pale:#c9dafb;--card:#f6f8fa}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--dim:#98a2b0;--paper:#14181f;--line:#2a313c;--blue:#6ea0ff;
--orange:#f0a05a;--grey:#6b7686;--pale:#2b4378;--card:#1b212a}}
*{box-sizing:border-box}body{margin:0 auto;max-width:920px;padding:28px 20px 60px;background:var(--paper);
color:var(--ink);font:15px/1.5 system-ui,sans-serif}
h1{font-size:24px;margin:0 0 4px}h2{font-size:17px;margin:34px 0 6px}
p{margin:6px 0}.dim,.tick{color:var(--dim);fill:var(--dim)}.cards{display:flex;flex-wrap:wrap;gap:10px;margin:18px 0}
.card{background:var(--card);border-radius:8px;padding:10px 14px;min-width:130px}.card b{display:block;font-size:21px}
svg{width:100%;height:auto;display:block}.tick{font-size:11px}.name{font-size:12px;fill:var(--ink)}
.grid{stroke:var(--line)}polyline{fill:none;stroke-width:1.8}.filled{fill-opacity:.28;stroke-width:1.2}
.held{stroke:var(--blue);fill:var(--blue)}polyline.held,polyline.there,polyline.running,polyline.waiting{fill:none}
.there{stroke:var(--grey);stroke-dasharray:4 3}.running{stroke:var(--blue)}
.waiting{stroke:var(--orange);fill:var(--orange)}
.pointer{fill:transparent}.pointer:hover{fill:var(--ink);fill-opacity:.08}.most{fill:var(--line)}.high{fill:var(--pale)}
.middle{fill:var(--blue)}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{padding:4px 8px;text-align:right;border-bottom:1px solid var(--line);font-weight:400;white-space:nowrap}
th{color:var(--dim)}td:first-child,th:first-child{text-align:left;white-space:nowrap}.key span{margin-right:14px}
.key i{display:inline-block;width:12px;height:10px;border-radius:2px;margin-right:5px}.bad{color:var(--orange)}
.scroll{overflow-x:auto}.left{text-align:left}td.left,th.left{text-align:left;white-space:normal}
"""


MEANINGS = (
    "Every number on this page is computed from the log. A wait is the time a job spent in the queue, over all its "
    "attempts. Utilisation is GPU-time held over GPU-time there, from the first submission to the last end."
)


def write_report(
    path: Path,
    chronicle: Chronicle,
    summary: Summary,
    *,
    title: str,
    notes: Sequence[str] = (),
    replayed: ReplayReport | None = None,
) -> None:
    """Write the page; `notes` say how the log came about, `replayed` what its replay found."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(chronicle, summary, title=title, notes=notes, replayed=replayed), encoding="utf-8")


def page(
    chronicle: Chronicle,
    summary: Summary,
    *,
    title: str,
    notes: Sequence[str] = (),
    replayed: ReplayReport | None = None,
) -> str:
    """The page's text."""
    parts = [
        f"<h1>{escape(title)}</h1>",
        *(f'<p class="dim">{escape(note)}</p>' for note in notes),
        _cards(summary),
        *(_pool(name, chronicle, summary) for name in chronicle.pools if summary.gpus.get(name)),
        _decisions(chronicle),
        _waits("Waits by group", summary.waits_by_group),
        _waits("Waits by size", summary.waits_by_size),
        _longest(summary),
        _replayed(replayed) if replayed is not None else "",
        f'<p class="dim">{MEANINGS}</p>',
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = "".join(parts)
    return f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head><body>{body}</body></html>\n'


def _cards(summary: Summary) -> str:
    ends = ", ".join(f"{n} {state}" for state, n in summary.ends.items())
    at_once = counted(summary.starts_at_once.jobs, "job")
    cards = [
        ("jobs in", str(summary.jobs_in), f"{summary.rejected} refused"),
        ("jobs out", str(summary.jobs_out), ends),
        *(
            (f"use of {pool}", f"{share:.0%}", counted(summary.gpus[pool], "GPU"))
            for pool, share in summary.uses.items()
        ),
        ("median wait", duration(summary.waits.median_ms), f"p99 {duration(summary.waits.p99_ms)}"),
        (
            "submit to running",
            duration(summary.starts_at_once.median_ms),
            f"p99 {duration(summary.starts_at_once.p99_ms)}; {at_once} that had room at once",
        ),
        (
            "decisions/s",
            f"{summary.verdicts_per_s:.1f}",
            f"in seconds that had any; at most {summary.verdicts_per_s_most}",
        ),
    ]
    inside = "".join(
        f'<div class="card"><span class="dim">{escape(name)}</span><b>{escape(value)}</b>'
        f'<span class="dim">{escape(note)}</span></div>'
        for name, value, note in cards
    )
    return f'<div class="cards">{inside}</div>'


def _pool(name: str, chronicle: Chronicle, summary: Summary) -> str:
    begin = min((job.submitted_ms for job in chronicle.jobs), default=chronicle.first_ms)
    moments = chronicle.pools[name]
    seconds = max(1, chronicle.last_ms - begin) / 1000
    there = max((moment.there_milli for moment in moments), default=0) / GPU_MILLI
    held = tuple(share * there for share in _bucketed_use(moments, begin, chronicle.last_ms))
    use = [
        Line(name="held", style="held", values=held, filled=True),
        Line(name="there", style="there", values=(there,) * BUCKETS),
    ]
    busy = _busy(chronicle.busy.get(name, ()), begin, chronicle.last_ms)
    use[1:1] = [Line(name="busy", style="waiting", values=busy)] if busy else []
    told = (("var(--orange)", "busy, as measured"),) if busy else ()
    queue = [
        Line(name="waiting", style="waiting", values=_most(moments, begin, chronicle.last_ms, "waiting"), filled=True),
        Line(name="running", style="running", values=_most(moments, begin, chronicle.last_ms, "running")),
    ]
    models = ", ".join(f"{n} {model}" for model, n in chronicle.models.get(name, {}).items())
    nodes, gpus = counted(chronicle.nodes[name], "node"), counted(summary.gpus[name], "GPU")
    return "".join(
        (
            f"<h2>Pool {escape(name)}: GPUs in use</h2>",
            f'<p class="dim">{nodes} with {gpus} ({escape(models)})</p>',
            _key(("var(--blue)", "held by jobs"), *told, ("var(--grey)", "there")),
            over_time(use, seconds=seconds, unit="GPUs"),
            f"<h2>Pool {escape(name)}: queue</h2>",
            _key(("var(--orange)", "waiting"), ("var(--blue)", "running")),
            over_time(queue, seconds=seconds, unit="jobs"),
        )
    )


def _key(*entries: tuple[str, str]) -> str:
    inside = "".join(f'<span><i style="background:{colour}"></i>{name}</span>' for colour, name in entries)
    return f'<p class="key dim">{inside}</p>'


def _bucketed_use(moments: tuple[Moment, ...], begin: int, end: int) -> tuple[float, ...]:
    edges = _edges(begin, end)
    return tuple(held_share(moments, low, high) or 0.0 for low, high in edges)


def _busy(measured: Sequence[tuple[int, int, int]], begin: int, end: int) -> tuple[float, ...]:
    """GPUs that worked, by what machines measured; nothing where none did."""
    stretches = Stretches()
    for since, until, milli in measured:
        stretches.add(since, until, milli)
    edges = [low for low, _ in _edges(begin, end)]
    return tuple(mean / GPU_MILLI for mean in stretches.means([*edges, max(end, begin)])) if len(stretches) else ()


def _most(moments: Sequence[Moment], begin: int, end: int, field: str) -> tuple[float, ...]:
    """Highest value of a field in each bucket, the one it begins with included."""
    values, current, position = [], 0, 0
    for _, high in _edges(begin, end):
        most = current
        while position < len(moments) and moments[position].at <= high:
            current = getattr(moments[position], field)
            most = max(most, current)
            position += 1
        values.append(float(most))
    return tuple(values)


def _edges(begin: int, end: int) -> list[tuple[int, int]]:
    length = max(1, end - begin)
    return [(begin + length * k // BUCKETS, begin + length * (k + 1) // BUCKETS) for k in range(BUCKETS)]


def _decisions(chronicle: Chronicle) -> str:
    if not chronicle.decided:
        return ""
    first, span = min(chronicle.decided), max(chronicle.decided) - min(chronicle.decided) + 1
    # A log of months has millions of seconds: each point is the busiest of its time.
    values = [0.0] * min(span, BUCKETS)
    for second, count in chronicle.decided.items():
        place = (second - first) * len(values) // span
        values[place] = max(values[place], float(count))
    line = Line(name="decisions", style="held", values=tuple(values), filled=True)
    plot = over_time([line], seconds=float(span), unit="in the busiest second")
    return f"<h2>Decisions on jobs per second</h2>{plot}"


def _waits(title: str, spreads: Sequence[Spread]) -> str:
    rows = [
        Bars(
            name=spread.name,
            note=f"{spread.name}: "
            + " ".join(f"{name} {cell}" for name, cell in zip(SPREAD_HEADER, spread_row(spread)[1:], strict=True)),
            middle=spread.median_ms / 1000,
            high=spread.p90_ms / 1000,
            most=spread.longest_ms / 1000,
        )
        for spread in spreads
    ]
    key = _key(("var(--blue)", "median"), ("var(--pale)", "p90"), ("var(--line)", "longest"))
    table = _table(("", *SPREAD_HEADER), [spread_row(spread) for spread in spreads])
    return f"<h2>{title}</h2>{key}{bars(rows)}{table}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _longest(summary: Summary) -> str:
    rows = "".join(
        f"<tr><td>job {wait.job}</td><td class=left>{escape(wait.group)}</td><td>{wait.gpus:g}</td>"
        f"<td>{duration(wait.waited_ms)}</td><td class=left>{escape(wait.code)}</td>"
        f"<td class=left>{escape(wait.reason)}</td></tr>"
        for wait in summary.longest
    )
    head = "<tr><th></th><th class=left>group</th><th>GPUs</th><th>waited</th><th class=left>reason</th><th></th></tr>"
    return f'<h2>Longest waits</h2><div class="scroll"><table>{head}{rows}</table></div>'


def _replayed(report: ReplayReport) -> str:
    style = "" if report.equal else ' class="bad"'
    return f"<h2>Replay</h2>{''.join(f'<p{style}>{escape(line)}</p>' for line in replay_lines(report))}"
