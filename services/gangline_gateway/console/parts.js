// Pieces that several pages are made of, and how a page gets its data.

import { html, useCallback, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { feed } from "./api.js";
import { clock, csv, local } from "./format.js";

const CALM_MS = 1_000;
const SLOW_MS = 15_000;
const PAUSE_OF_LOAD = 10;
const LINE_S_LEAST = 120;
const FEW = 10;

/**
 * Data of a page: loaded at once, again soon after something happened that `wants` an update, and now and then anyway.
 * Nothing is asked while the page is hidden, and what takes long to answer is asked seldom: pauses are ten times as long
 * as the last answer took. Gives {data, error, reload}.
 */
export function useData(load, inputs, wants = () => true) {
  const [got, setGot] = useState({ data: null, error: null });
  const again = useRef(() => {});
  useEffect(() => {
    const stopped = new AbortController();
    let timer = null;
    let due = Infinity;
    let isLoading = false;
    let took_ms = 0;
    const plan = (ms) => {
      const then = Date.now() + ms;
      if (then >= due) return;
      due = then;
      clearTimeout(timer);
      timer = setTimeout(run, ms);
    };
    const run = async () => {
      // What was due while a load was under way, or while nobody looked, is made up for afterwards.
      if (isLoading || document.hidden) return;
      due = Infinity;
      isLoading = true;
      const begun = Date.now();
      try {
        const data = await load(stopped.signal);
        if (!stopped.signal.aborted) setGot({ data, error: null });
      } catch (error) {
        if (!stopped.signal.aborted) setGot((before) => ({ data: before.data, error }));
      }
      isLoading = false;
      took_ms = Date.now() - begun;
      if (stopped.signal.aborted) return;
      if (due < Date.now()) run();
      else plan(SLOW_MS);
    };
    const unlisten = feed.listen((event) => { if (event && wants(event)) plan(Math.max(CALM_MS, PAUSE_OF_LOAD * took_ms)); });
    const shown = () => { if (!document.hidden && due < Date.now()) run(); };
    document.addEventListener("visibilitychange", shown);
    again.current = () => plan(0);
    run();
    return () => {
      stopped.abort();
      clearTimeout(timer);
      unlisten();
      document.removeEventListener("visibilitychange", shown);
    };
  }, inputs);
  return { ...got, reload: useCallback(() => again.current(), []) };
}

/** What goes wrong is said where it was asked for; what was there before stays. */
export const Trouble = ({ error }) =>
  error ? html`<p class="trouble" role="alert">${error.message || String(error)}</p>` : null;

export const State = ({ name }) => html`<span class=${`state ${name}`}>${name.replace("_", " ")}</span>`;

/** How people write a job's number: 42_7 for an element of an array. */
export const label = (job) => (job.array_job ? `${job.array_job}_${job.array_index || 0}` : job.id);

export const JobLink = ({ id, name, of }) => html`<a href=${`#/jobs/${id}`}>${of ? label(of) : id}${name ? html` <span class="quiet">${name}</span>` : null}</a>`;

/** Why a job waits: a sentence, what to do, and the code for those who look it up. */
export const Why = ({ reason }) =>
  reason ? html`<span title=${reason.code}>${local(reason.sentence)}</span>${reason.hint ? html`<div class="quiet">${reason.hint}</div>` : null}` : null;

/** The same in a line of many: what to do stands where the pointer rests. */
export const WhyShort = ({ reason }) =>
  reason ? html`<span title=${[reason.hint, reason.code].filter(Boolean).join("\n")}>${local(reason.sentence)}</span>` : null;

/** A bar of used, with marks; values share one unit. */
export function Bar({ used, total, marks = [], label }) {
  const width = (value) => `${Math.min(100, total ? (100 * value) / total : 0)}%`;
  return html`<div class="bar" role="img" aria-label=${label}>
    <div class="fill" style=${{ width: width(used) }}></div>
    ${marks.filter((mark) => mark.at > 0).map((mark) => html`<div class=${`mark ${mark.kind}`} title=${mark.title} style=${{ left: width(mark.at) }}></div>`)}
  </div>`;
}

/** A column of short texts that are not broken into two lines: [title, cell, text, rank]. */
export const brief = (title, text, rank) => [title, (row) => html`<span class="whole">${text(row)}</span>`, text, rank || text];

const words = new Intl.Collator(undefined, { numeric: true });
const compared = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : words.compare(String(a ?? ""), String(b ?? "")));

/**
 * A table whose columns are [title, cell of a row, text of a row, rank of a row]; the texts are what goes into a CSV file.
 * A click on a title orders the rows by it, a second one the other way round, a third one as they came.
 */
export function Table({ columns, rows: given, keyOf, name, empty }) {
  const [by, setBy] = useState({ title: "", turn: 1 });
  const column = columns.find(([title]) => title && title === by.title);
  const rank = column && (column[3] || column[2] || column[1]);
  const rows = rank ? [...given].sort((a, b) => by.turn * compared(rank(a), rank(b))) : given;
  const order = (title) => setBy(by.title !== title ? { title, turn: 1 } : by.turn === 1 ? { title, turn: -1 } : { title: "", turn: 1 });
  if (!rows.length) return html`<p class="quiet">${empty}</p>`;
  const save = () => {
    const text = csv(columns.map(([title]) => title), rows.map((row) => columns.map(([, cell, plain]) => (plain || cell)(row))));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = `${name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  return html`<div class="scroll"><table>
    <thead><tr>${columns.map(([title]) => html`<th scope="col" aria-sort=${title && title === by.title ? (by.turn === 1 ? "ascending" : "descending") : null}>
      ${title ? html`<button class="plain" onClick=${() => order(title)}>${title}</button>` : null}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${keyOf(row)}>${columns.map(([, cell]) => html`<td>${cell(row)}</td>`)}</tr>`)}</tbody>
  </table></div>
  <p><button class="plain" onClick=${save}>Save as CSV</button></p>`;
}

/** Fields of a filter; what stands in them is in the address, so that a view can be sent to somebody. */
export function Filter({ page, query, fields, standing = {} }) {
  const value = (name) => query.get(name) || standing[name] || "";
  const change = (name, value) => {
    const next = new URLSearchParams(query);
    if (value) next.set(name, value);
    else next.delete(name);
    location.hash = `#/${page}${next.size ? `?${next}` : ""}`;
  };
  return html`<form class="filter" onSubmit=${(event) => event.preventDefault()}>
    ${fields.map(({ name, label, options }) => html`<label>${label}
      ${options
        ? html`<select value=${value(name)} onChange=${(event) => change(name, event.target.value)}>
            ${options.map((option) => html`<option value=${option} selected=${option === value(name)}>${option || "all"}</option>`)}
          </select>`
        : html`<input value=${value(name)} onChange=${(event) => change(name, event.target.value.trim())} />`}
    </label>`)}
  </form>`;
}

/** A button that does something and says what came of it. */
export function Act({ does, children, asks, done }) {
  const [said, setSaid] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const run = async () => {
    if (asks && !confirm(asks)) return;
    setBusy(true);
    setSaid(null);
    try {
      await does();
      if (done) done();
    } catch (error) {
      setSaid(error.message);
    }
    setBusy(false);
  };
  return html`<span class="act"><button disabled=${isBusy} onClick=${run}>${children}</button>${said ? html`<span class="trouble" role="alert">${said}</span>` : null}</span>`;
}

/** A line over time, drawn by uPlot: points are [seconds, value] with the newest last. */
export function Line({ points, label, top, height = 150 }) {
  const box = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const ink = getComputedStyle(document.documentElement);
    const axis = { stroke: ink.getPropertyValue("--quiet"), grid: { stroke: ink.getPropertyValue("--line"), width: 1 } };
    const times = (_, moments) => moments.map((moment) => clock(1000 * moment));
    const options = {
      width: box.current.clientWidth || 400,
      height,
      cursor: { y: false },
      legend: { show: false },
      scales: {
        x: { range: (_, first, last) => [Math.min(first, last - LINE_S_LEAST), last] },
        y: { range: (_, __, most) => [0, 1.08 * Math.max(top || 0, most || 1)] },
      },
      axes: [{ ...axis, values: times, space: 90 }, { ...axis, size: 44 }],
      series: [{}, { label, points: { show: (plot) => plot.data[0].length <= FEW, size: 5 }, stroke: ink.getPropertyValue("--used"), fill: ink.getPropertyValue("--used-pale"), width: 1.5 }],
    };
    plot.current = new window.uPlot(options, [[], []], box.current);
    const fit = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height }));
    fit.observe(box.current);
    return () => {
      fit.disconnect();
      plot.current.destroy();
    };
  }, [label, top, height]);
  useEffect(() => {
    // A single point has no length: uPlot would choose one by itself.
    const drawn = points.length === 1 ? [[points[0][0] - LINE_S_LEAST, null], ...points] : points;
    plot.current.setData([drawn.map(([time]) => time), drawn.map(([, value]) => value)]);
  }, [points]);
  return html`<div class="line" ref=${box} role="img" aria-label=${label}></div>`;
}
