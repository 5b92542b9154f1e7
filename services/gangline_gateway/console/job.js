// One job: where it stands and why, what decides its turn, where it runs, what happened, what it wrote.

import { html, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { call, textOf } from "./api.js";
import { clock, counted, duration, expected, gpus, local, memory, score, sum } from "./format.js";
import { Act, Bar, label, State, Table, Trouble, useData, Why } from "./parts.js";

const ENDS = new Set(["succeeded", "failed", "cancelled", "timed_out", "lost"]);
const LOG_TAIL = 200;
const LOG_CHARS_MOST = 200_000;

export function Job({ id, who }) {
  const load = async (signal) => {
    const [job, why, history] = await Promise.all([
      call("GET", `/v1/jobs/${id}`, { signal }),
      call("GET", `/v1/jobs/${id}/explain`, { signal }),
      call("GET", `/v1/jobs/${id}/history`, { signal }).catch(() => null),
    ]);
    return { job, why, history };
  };
  const { data, error, reload } = useData(load, [id], (event) => String(event.job) === id || !data || !ENDS.has(data.job.state));
  if (!data) return html`<h1>Job ${id}</h1><${Trouble} error=${error} />`;
  const { job, why, history } = data;
  return html`<h1>Job ${label(job)} <span class="quiet">${job.name}</span> <${State} name=${job.state} /></h1>
    <${Trouble} error=${error} />
    <p class="said">${local(why.sentence)}</p>
    ${why.hint ? html`<p class="quiet">${why.hint}</p>` : null}
    ${(why.notes || []).map((note) => html`<p class="quiet">${local(note)}</p>`)}
    ${who.role === "readonly" ? null : html`<${Verbs} job=${job} done=${reload} />`}
    <${Facts} job=${job} />
    ${ENDS.has(job.state) ? null : html`<${Turn} why=${why} />`}
    <${Tasks} job=${job} />
    <${Story} history=${history} />
    ${job.array ? null : html`<${Output} id=${id} />`}
    ${job.spec ? html`<details><summary>As it was asked for</summary><pre>${JSON.stringify(job.spec, null, 2)}</pre></details>` : null}`;
}

function Verbs({ job, done }) {
  const post = (verb) => () => call("POST", `/v1/jobs/${job.id}/${verb}`, { body: {} });
  if (ENDS.has(job.state)) return html`<p><${Act} done=${done} does=${post("rerun")}>Run again<//></p>`;
  return html`<p>
    ${["held", "paused", "suspended"].includes(job.state) ? html`<${Act} done=${done} does=${post("release")}>Release<//>` : html`<${Act} done=${done} does=${post("hold")}>Hold<//>`}
    ${job.state === "waiting" ? html`<${Act} done=${done} does=${post("top")}>To the top<//>` : null}
    <${Act} done=${done} does=${post("cancel")} asks=${`Cancel job ${job.id}?`}>Cancel<//>
  </p>`;
}

function Facts({ job }) {
  const rows = [
    ["Group, user", `${job.group}, ${job.user}`],
    ["Pool, level, priority", `${job.pool}, ${job.level || "normal"}, ${job.priority || 0}`],
    ["Asks for", `${amounts(job.gpu_milli, job.size)}${range(job.spec)}, ${job.service_class || "burstable"}`],
    ["Time limit", job.time_limit_s ? duration(job.time_limit_s * 1000) : ""],
    ["Estimate", job.spec && job.spec.estimate_s ? duration(job.spec.estimate_s * 1000) : ""],
    ["Has", job.gpu_milli_held ? amounts(job.gpu_milli_held, sum(job.sizes)) : ""],
    ["Submitted", clock(job.submitted_ms)],
    ["Started", job.started_ms ? `${clock(job.started_ms)}, after ${duration(job.waited_ms || 0)}` : ""],
    ["Ended", job.ended_ms ? `${clock(job.ended_ms)}${job.exit_code === undefined || job.exit_code === null ? "" : `, exit code ${job.exit_code}`}` : ""],
    ["Attempts", job.attempt > 1 ? `${job.attempt} (${job.preemptions || 0} preemptions, ${job.losses || 0} losses, ${job.retries_used || 0} retries)` : ""],
    ["Progress", job.progress && job.progress.percent != null ? `${job.progress.percent.toFixed(1)} %` : ""],
    ["CPUs, memory used", job.use && job.use.cpu_milli != null ? `${(job.use.cpu_milli / 1000).toFixed(1)} of ${(job.use.cpu_milli_held || 0) / 1000} CPUs, ${job.use.memory_mib ?? "?"} of ${job.use.memory_mib_held || 0} MiB` : ""],
    ["Slow members", Object.entries(job.stragglers || {}).map(([task, percent]) => `${task}: ${percent} % of the usual step`).join(", ")],
    ["GPUs busy", job.use && job.use.gpu_percent != null ? `${job.use.gpu_percent} % of the last ${duration(job.use.window_s * 1000)}${job.use.advice ? `. ${job.use.advice}` : ""}` : ""],
    ["Array", job.array ? Object.entries(job.array.counts || {}).map(([state, count]) => `${count} ${state}`).join(", ") : ""],
  ];
  return html`<dl>${rows.filter(([, value]) => value).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

const amounts = (milli, tasks) => `${counted(gpus(milli || 0), "GPU", "GPUs")} in ${counted(tasks || 0, "task", "tasks")}`;

/** Between which sizes the tasks of elastic roles may be. */
const range = (spec) => ((spec && spec.roles) || []).filter((role) => role.max_count > role.min_count)
  .map((role) => `, ${role.name} ${role.min_count} to ${role.max_count}`).join("");

/** What decides when it is its turn: position, terms of the score, and what stands between the job and its room. */
function Turn({ why }) {
  const terms = why.terms || [];
  const most = Math.max(1, ...terms.map((term) => Math.abs(term.value)));
  const lacks = why.shortfall;
  const starts = expected(why.start_from_ms, why.start_to_ms);
  if (!why.position && !starts && !why.start_note && !terms.length && !lacks && !(why.also || []).length) return null;
  return html`<section><h2>Its turn</h2>
    ${why.position ? html`<p>Number ${why.position} of ${why.waiting} in pool ${why.pool}.</p>` : null}
    ${starts ? html`<p>Expected to start ${starts}${why.confidence ? ` (${why.confidence})` : ""}. <span class="quiet">${local(why.start_note)}</span></p>` : why.start_note ? html`<p class="quiet">${local(why.start_note)}</p>` : null}
    ${terms.length ? html`<div class="scroll"><table class="terms"><tbody>${terms.map((term) => html`<tr><td>${term.name}</td><td class="wide"><${Bar} used=${Math.abs(term.value)} total=${most} label=${term.name} /></td><td>${score(term.value)}</td></tr>`)}
      <tr><td>score</td><td></td><td><b>${score(why.score || 0)}</b></td></tr></tbody></table></div>` : null}
    ${lacks ? html`<p>${lacks.verdict === "never" ? html`<b>No empty pool could hold it.</b> ` : null}${lacks.best || ""} ${lacks.missing || ""}</p>
      ${(lacks.excluded || []).length ? html`<${Table} name="excluded" keyOf=${(row) => row.cause} rows=${lacks.excluded} empty=""
        columns=${[["Nodes that cannot take it because", (row) => row.cause], ["Nodes", (row) => row.nodes], ["GPUs", (row) => row.gpus]]} />` : null}
      ${lacks.moves_note ? html`<p class="quiet">${lacks.moves_note}</p>` : null}` : null}
    ${(why.also || []).length ? html`<p class="quiet">Were that gone, it would wait for:</p><ul>${why.also.map((reason) => html`<li><${Why} reason=${reason} /></li>`)}</ul>` : null}
  </section>`;
}

function Tasks({ job }) {
  if (!(job.tasks || []).length) return null;
  const columns = [
    ["Rank", (task) => task.rank],
    ["Task", (task) => `${task.role}-${task.index}`],
    ["Node", (task) => html`<a href=${`#/nodes/${encodeURIComponent(task.node)}`}>${task.node}</a>`, (task) => task.node],
    ["GPUs", (task) => `${gpus(task.gpu_milli || 0)}${(task.gpus || []).length ? ` (${task.gpus.join(", ")})` : ""}`],
    ["Model", (task) => task.gpu_model || ""],
    ["CPUs", (task) => gpus(task.cpu_milli || 0)],
    ["Memory", (task) => memory(task.memory_mib || 0)],
    ["State", (task) => `${task.state}${task.stop ? ", told to stop" : ""}`],
  ];
  return html`<section><h2>Tasks</h2><${Table} name=${`job-${job.id}-tasks`} columns=${columns} rows=${job.tasks} keyOf=${(task) => task.id} empty="" /></section>`;
}

function Story({ history }) {
  if (!history) return html`<section><h2>What happened</h2><p class="quiet">The recorder does not answer now.</p></section>`;
  const lines = history.events.map((event) => html`<li key=${event.id}>
    <span class="quiet">${clock(event.at)}</span> <b>${event.event}</b> ${local(event.message)}</li>`);
  if (history.left_out) {
    lines.splice(history.left_out_after || 0, 0, html`<li key="left-out" class="quiet">... ${history.left_out} more ...</li>`);
  }
  return html`<section><h2>What happened</h2><ul class="lines">${lines}</ul></section>`;
}

/** What the job writes, from its last lines on, followed as long as it is looked at. */
function Output({ id }) {
  const [text, setText] = useState(null);
  const [trouble, setTrouble] = useState(null);
  const [isOpen, setOpen] = useState(false);
  const box = useRef(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    const stopped = new AbortController();
    const read = async () => {
      let kept = "";
      setText("");
      try {
        for await (const part of textOf(`/v1/jobs/${id}/logs`, { query: { follow: true, prefix: true, tail: LOG_TAIL }, signal: stopped.signal })) {
          kept = (kept + part).slice(-LOG_CHARS_MOST);
          setText(kept);
        }
      } catch (error) {
        if (!stopped.signal.aborted) setTrouble(error);
      }
    };
    read();
    return () => stopped.abort();
  }, [id, isOpen]);
  useEffect(() => { if (box.current) box.current.scrollTop = box.current.scrollHeight; }, [text]);
  return html`<details onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>Output</summary>
    <${Trouble} error=${trouble} />
    ${text === null ? null : html`<pre class="output" ref=${box}>${text || "Nothing yet."}</pre>`}</details>`;
}
