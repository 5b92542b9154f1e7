// The machines: all of them as a list, and one with its GPUs as they hang together.

import { html } from "./vendor/preact-htm.js";
import { call, pages } from "./api.js";
import { clock, counted, gpus, local, memory } from "./format.js";
import { Act, Bar, brief, Filter, JobLink, label, State, Table, Trouble, useData } from "./parts.js";

const NODES_MOST = 2_000;
const STATES = ["", "ready", "drained", "lost", "sick"];
const JOBS_MOST = 32;

const taken = (node) => (node.gpus || []).reduce((sum, gpu) => sum + (gpu.milli_used || 0), 0);
const free = (node) => (node.state === "ready" ? (node.gpus || []).filter((gpu) => gpu.healthy !== false && !gpu.milli_used).length : 0);
const models = (node) => [...new Set((node.gpus || []).map((gpu) => gpu.model))].join(", ");

const COLUMNS = [
  ["Node", (node) => html`<a href=${`#/nodes/${encodeURIComponent(node.id)}`}>${node.id}</a>`, (node) => node.id],
  ["State", (node) => html`<${State} name=${node.state} />`, (node) => node.state],
  ["Pool", (node) => node.pool],
  ["GPUs", (node) => (node.gpus || []).length],
  ["Model", models],
  ["Taken", (node) => gpus(taken(node)), null, taken],
  ["Free", (node) => html`<${Room} node=${node} />`, free, free],
  brief("CPUs", (node) => `${gpus(node.cpu_milli_used)} of ${gpus(node.cpu_milli)}`, (node) => node.cpu_milli_used),
  brief("Memory", (node) => `${memory(node.memory_mib_used)} of ${memory(node.memory_mib)}`, (node) => node.memory_mib_used),
  ["Tasks", (node) => node.task_count || 0],
  brief("Busy", (node) => (node.utilisation_percent == null ? "" : `${node.utilisation_percent} %`), (node) => node.utilisation_percent ?? -1),
  ["Why", (node) => node.why || ""],
];

/** GPUs wholly free, and how much of the node is taken. */
const Room = ({ node }) => ((node.gpus || []).length
  ? html`<div class="room"><span>${free(node)}</span><${Bar} used=${taken(node)} total=${node.gpus.length * 1000} label=${`${gpus(taken(node))} of ${node.gpus.length} taken`} /></div>`
  : "");

export function Nodes({ query }) {
  const pool = query.get("pool") || "";
  const load = (signal) => pages("/v1/nodes", "nodes", { signal, query: { pool, limit: 500 }, most: NODES_MOST });
  const { data, error } = useData(load, [pool]);
  const least = Number(query.get("free")) || 0;
  const state = query.get("state") || "";
  const words = (query.get("find") || "").toLowerCase();
  const fits = (node) => (!state || node.state === state) && free(node) >= least && (!words || [node.id, models(node), node.why, ...Object.values(node.labels || {})].join(" ").toLowerCase().includes(words));
  return html`<h1>Nodes</h1>
    <${Filter} page="nodes" query=${query} fields=${[{ name: "pool", label: "Pool" }, { name: "state", label: "State", options: STATES }, { name: "free", label: "GPUs free, at least" }, { name: "find", label: "With the words" }]} />
    <${Trouble} error=${error} />
    ${data ? html`<p class="quiet">${summary(data.found.filter(fits))}</p>${data.more ? html`<p class="quiet">The first ${data.found.length} nodes; a pool shows fewer.</p>` : null}
      <${Table} name="nodes" columns=${COLUMNS} rows=${data.found.filter(fits)} keyOf=${(node) => node.id} empty="No such nodes." />` : null}`;
}

const summary = (nodes) => {
  const cards = nodes.reduce((all, node) => all + (node.gpus || []).length, 0);
  const most = Math.max(0, ...nodes.map(free));
  return `${counted(nodes.length, "node", "nodes")} with ${counted(cards, "GPU", "GPUs")}, ${nodes.reduce((all, node) => all + free(node), 0)} of them free, at most ${most} on one node.`;
};

export function Node({ id, who }) {
  const path = `/v1/nodes/${encodeURIComponent(id)}`;
  const load = async (signal) => {
    const node = await call("GET", path, { signal });
    const jobs = (node.jobs || []).slice(0, JOBS_MOST).map((job) => call("GET", `/v1/jobs/${job}`, { signal }).catch(() => null));
    return { node, jobs: (await Promise.all(jobs)).filter(Boolean) };
  };
  const { data, error, reload } = useData(load, [id]);
  if (!data) return html`<h1>${id}</h1><${Trouble} error=${error} />`;
  const { node, jobs } = data;
  const drain = node.state === "drained";
  return html`<h1>${node.id} <${State} name=${node.state} /></h1>
    <${Trouble} error=${error} />
    ${node.why ? html`<p class="said">${local(node.why)}</p>` : null}
    ${who.role === "admin" ? html`<p><${Act} done=${reload} does=${() => call("POST", `${path}/${drain ? "resume" : "drain"}`, { body: {} })}>${drain ? "Take work again" : "Drain"}<//></p>` : null}
    <${Topology} gpus=${node.gpus || []} holders=${holders(node, jobs)} />
    <${Held} node=${node} jobs=${jobs} />
    <dl>
      <dt>Pool</dt><dd>${node.pool}</dd>
      <dt>CPUs</dt><dd>${gpus(node.cpu_milli_used)} of ${gpus(node.cpu_milli)}</dd>
      <dt>Memory</dt><dd>${memory(node.memory_mib_used)} of ${memory(node.memory_mib)}</dd>
      <dt>Seen</dt><dd>${clock(node.seen_ms)}</dd>
      ${Object.entries(node.labels || {}).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
      ${(node.taints || []).length ? html`<dt>Taints</dt><dd>${node.taints.join(", ")}</dd>` : null}
    </dl>`;
}

const here = (node, job) => (job.tasks || []).filter((task) => task.node === node.id);

/** Which of the jobs that one may see are on which GPU of the node. */
function holders(node, jobs) {
  const found = new Map();
  for (const job of jobs) {
    for (const gpu of new Set(here(node, job).flatMap((task) => task.gpus || []))) found.set(gpu, [...(found.get(gpu) || []), job]);
  }
  return found;
}

/** Who is on the node, with how much of it. */
function Held({ node, jobs }) {
  const more = (node.jobs || []).length - jobs.length;
  return html`<section><h2>Jobs here</h2>
    <${Table} name=${`node-${node.id}-jobs`} rows=${jobs} keyOf=${(job) => job.id} empty="None that you may see." columns=${[
      ["Job", (job) => html`<${JobLink} id=${job.id} name=${job.name} of=${job} />`, (job) => job.id],
      ["State", (job) => html`<${State} name=${job.state} />`, (job) => job.state],
      ["Group", (job) => job.group],
      ["User", (job) => job.user],
      ["Tasks here", (job) => here(node, job).length],
      ["GPUs here", (job) => gpus(here(node, job).reduce((all, task) => all + (task.gpu_milli || 0), 0))],
      ["Started", (job) => clock(job.started_ms), null, (job) => job.started_ms || 0],
    ]} />
    ${more > 0 ? html`<p class="quiet">Others here: ${node.jobs.filter((job) => !jobs.some((one) => one.id === job)).map((job) => html`<${JobLink} id=${job} /> `)}</p>` : null}</section>`;
}

const groupBy = (rows, keyOf) => {
  const found = new Map();
  for (const row of rows) found.set(keyOf(row), [...(found.get(keyOf(row)) || []), row]);
  return [...found];
};

/** GPUs in boxes: socket, PCIe switch where it is known, NVLink island; a level that divides nothing is not drawn. */
function Topology({ gpus: cards, holders: jobs }) {
  if (!cards.length) return html`<p class="quiet">A machine without GPUs.</p>`;
  const levels = [
    ["Socket", (card) => card.socket || 0],
    ["Switch", (card) => card.switch ?? -1],
    ["NVLink", (card) => card.island || 0],
  ].filter(([, keyOf]) => new Set(cards.map(keyOf)).size > 1);
  const box = (rows, depth) => {
    if (depth === levels.length) return html`<div class="cards">${rows.map((card) => html`<${Card} card=${card} jobs=${jobs.get(card.index) || []} />`)}</div>`;
    const [title, keyOf] = levels[depth];
    return html`<div class="boxes">${groupBy(rows, keyOf).map(([key, own]) => html`<fieldset><legend>${title} ${key < 0 ? "not known" : key}</legend>${box(own, depth + 1)}</fieldset>`)}</div>`;
  };
  return html`<section><h2>GPUs</h2>${box(cards, 0)}</section>`;
}

function Card({ card, jobs }) {
  const used = card.milli_used || 0;
  const is_sick = card.healthy === false;
  const title = `${card.model} ${memory(card.memory_mib)}${card.mig ? `, slices (${card.mig})` : ""}${card.uuid ? `, ${card.uuid}` : ""}${card.problem ? `: ${card.problem}` : ""}`;
  return html`<div class=${`card ${is_sick ? "sick" : ""}`} title=${title}>
    <b>${card.index}</b> <span class="quiet">${card.model}</span>
    <div class="bar"><div class="fill" style=${{ width: `${Math.min(100, used / 10)}%` }}></div></div>
    <span class="quiet">${is_sick ? card.problem || "sick" : `${gpus(used)} taken${card.memory_mib_used ? `, ${memory(card.memory_mib_used)}` : ""}`}</span>
    ${jobs.length ? html`<div>${jobs.map((job) => html`<a href=${`#/jobs/${job.id}`} title=${`${job.name}, ${job.user}`}>${label(job)}</a> `)}</div>` : null}
  </div>`;
}
