// Ask before submitting: the platform judges the job and says what would happen. Submitting it is the next button.

import { html, useState } from "./vendor/preact-htm.js";
import { call } from "./api.js";
import { amount, expected, gpus } from "./format.js";
import { Act, Table, Trouble, Why } from "./parts.js";

const shown = (name) => (row) => (row[name] === undefined || row[name] === null ? "" : amount(row.dimension, row[name]));
const EFFECTS = [
  ["Holder", (row) => row.holder || "everything"],
  ["What", (row) => row.dimension],
  ["Used", shown("used")],
  ["Needs", shown("needed")],
  ["Guaranteed", shown("guaranteed")],
  ["Limit", shown("limit")],
];

const FIELDS = [
  ["name", "Name", "try"],
  ["group", "Group", ""],
  ["pool", "Pool", ""],
  ["tasks", "Tasks", "1"],
  ["gpus", "GPUs of each task", "1"],
  ["gpu_models", "GPU models, best first", ""],
  ["cpus", "CPUs of each task", "1"],
  ["memory", "Memory of each task", "1Gi"],
  ["time_limit", "Time limit", "1h"],
  ["command", "Command, one argument a line", "sleep\n60"],
];

/** The job file of a form; what is empty is left out. */
function fileOf(form) {
  const lines = (text) => text.split(/[\n,]/).map((part) => part.trim()).filter(Boolean);
  const file = {};
  for (const name of ["name", "group", "pool", "gpus", "cpus", "memory", "time_limit"]) {
    if (form[name]) file[name] = form[name];
  }
  if (form.tasks) file.tasks = Number(form.tasks);
  if (form.gpu_models) file.gpu_models = lines(form.gpu_models);
  if (form.command) file.command = form.command.split("\n").filter(Boolean);
  return file;
}

export function Try({ who }) {
  const [form, setForm] = useState(Object.fromEntries(FIELDS.map(([name, , value]) => [name, value])));
  const [text, setText] = useState(null);
  const [answer, setAnswer] = useState(null);
  const [error, setError] = useState(null);
  const file = text === null ? JSON.stringify(fileOf(form), null, 2) : text;
  const ask = async (dry_run) => {
    setAnswer(null);
    setError(null);
    try {
      const job = await call("POST", "/v1/jobs", { query: dry_run ? { dry_run: true } : {}, body: JSON.parse(file) });
      if (dry_run) setAnswer(job);
      else location.hash = `#/jobs/${job.id}`;
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<h1>Would it run?</h1>
    <div class="two">
      <section><form class="job" onSubmit=${(event) => event.preventDefault()}>${FIELDS.map(([name, label]) => html`<label>${label}
        ${name === "command"
          ? html`<textarea rows="3" value=${form[name]} onInput=${(event) => { setForm({ ...form, [name]: event.target.value }); setText(null); }}></textarea>`
          : html`<input value=${form[name]} onInput=${(event) => { setForm({ ...form, [name]: event.target.value }); setText(null); }} />`}</label>`)}</form></section>
      <section><h2>Job file</h2>
        <textarea class="file" rows="16" spellcheck="false" aria-label="Job file" value=${file} onInput=${(event) => setText(event.target.value)}></textarea>
        <p><${Act} does=${() => ask(true)}>Ask<//> ${who.role === "readonly" ? null : html`<${Act} does=${() => ask(false)} asks="Submit this job?">Submit<//>`}</p>
        <${Trouble} error=${error} />
        ${answer ? html`<${Verdict} answer=${answer} />` : null}
      </section>
    </div>`;
}

/** The judgement of a dry run: room or reason, where and when, what it costs, and what it does to limits. */
function Verdict({ answer }) {
  const told = answer.foretold;
  if (!told) return html`<div class="said"><b>It would be admitted.</b></div>`;
  const starts = expected(told.start_from_ms, told.start_to_ms);
  const nodes = told.nodes || [];
  return html`<div class="said"><b>It would be admitted.</b>
    <p>${told.has_room ? "There is room for it now." : html`<${Why} reason=${told.reason} />`}</p>
    ${told.position ? html`<p>It would be number ${told.position} of ${told.waiting} that wait.</p>` : null}
    ${starts ? html`<p>Expected to start ${starts}${told.confidence ? ` (${told.confidence})` : ""}. <span class="quiet">${told.start_note || ""}</span></p>` : null}
    ${nodes.length ? html`<p>${told.has_room ? "It would go to" : "Nodes that it may go to:"} ${nodes.map((node) => html`<a href=${`#/nodes/${encodeURIComponent(node)}`}>${node}</a> `)}
      <span class="quiet">${told.nodes_suitable ? `${told.nodes_suitable} suit it` : ""}</span></p>` : null}
    ${told.cost_milli == null ? null : html`<p>A run costs at most ${gpus(told.cost_milli)} GPU-hours by the price list.</p>`}
    ${(told.effects || []).length ? html`<${Table} name="limits" rows=${told.effects} keyOf=${(row) => `${row.holder}/${row.dimension}`} empty="" columns=${EFFECTS} />` : null}</div>`;
}
