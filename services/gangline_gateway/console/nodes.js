// The machines: all of them as a list, and one with its GPUs as they hang together.

import { html } from "./vendor/preact-htm.js";
import { call, pages } from "./api.js";
import { clock, gpus, memory } from "./format.js";
import { Act, Filter, JobLink, State, Table, Trouble, useData } from "./parts.js";

const NODES_MOST = 2_000;
const STATES = ["", "ready", "drained", "lost", "sick"];

const taken = (node) => (node.gpus || []).reduce((sum, gpu) => sum + (gpu.milli_used || 0), 0);
const models = (node) => [...new Set((node.gpus || []).map((gpu) => gpu.model))].join(", ");

const COLUMNS = [
  ["Node", (node) => html`<a href=${`#/nodes/${encodeURIComponent(node.id)}`}>${node.id}</a>`, (node) => node.id],
  ["State", (node) => html`<${State} name=${node.state} />`, (node) => node.state],
  ["Pool", (node) => node.pool],
  ["GPUs", (node) => (node.gpus || []).length],
  ["Model", models],
  ["Taken", (node) => gpus(taken(node))],
  ["CPUs", (node) => `${gpus(node.cpu_milli_used)} of ${gpus(node.cpu_milli)}`],
  ["Memory", (node) => `${memory(node.memory_mib_used)} of ${memory(node.memory_mib)}`],
  ["Tasks", (node) => node.task_count || 0],
  ["Busy", (node) => (node.utilisation_percent == null ? "" : `${node.utilisation_percent} %`)],
  ["Why", (node) => node.why || ""],
];

export function Nodes({ query }) {
  const pool = query.get("pool") || "";
  const load = (signal) => pages("/v1/nodes", "nodes", { signal, query: { pool, limit: 500 }, most: NODES_MOST });
  const { data, error } = useData(load, [pool]);
  const state = query.get("state") || "";
  const words = (query.get("find") || "").toLowerCase();
  const fits = (node) => (!state || node.state === state) && (!words || [node.id, models(node), node.why, ...Object.values(node.labels || {})].join(" ").toLowerCase().includes(words));
  return html`<h1>Nodes</h1>
    <${Filter} page="nodes" query=${query} fields=${[{ name: "pool", label: "Pool" }, { name: "state", label: "State", options: STATES }, { name: "find", label: "With the words" }]} />
    <${Trouble} error=${error} />
    ${data ? html`${data.more ? html`<p class="quiet">The first ${data.found.length} nodes; a pool shows fewer.</p>` : null}
      <${Table} name="nodes" columns=${COLUMNS} rows=${data.found.filter(fits)} keyOf=${(node) => node.id} empty="No such nodes." />` : null}`;
}

export function Node({ id, who }) {
  const path = `/v1/nodes/${encodeURIComponent(id)}`;
  const { data: node, error, reload } = useData((signal) => call("GET", path, { signal }), [id]);
  if (!node) return html`<h1>${id}</h1><${Trouble} error=${error} />`;
  const drain = node.state === "drained";
  return html`<h1>${node.id} <${State} name=${node.state} /></h1>
    <${Trouble} error=${error} />
    ${node.why ? html`<p class="said">${node.why}</p>` : null}
    ${who.role === "admin" ? html`<p><${Act} done=${reload} does=${() => call("POST", `${path}/${drain ? "resume" : "drain"}`, { body: {} })}>${drain ? "Take work again" : "Drain"}<//></p>` : null}
    <${Topology} gpus=${node.gpus || []} />
    <dl>
      <dt>Pool</dt><dd>${node.pool}</dd>
      <dt>CPUs</dt><dd>${gpus(node.cpu_milli_used)} of ${gpus(node.cpu_milli)}</dd>
      <dt>Memory</dt><dd>${memory(node.memory_mib_used)} of ${memory(node.memory_mib)}</dd>
      <dt>Jobs</dt><dd>${(node.jobs || []).length ? node.jobs.map((job) => html`<${JobLink} id=${job} /> `) : "none that you may see"}</dd>
      <dt>Seen</dt><dd>${clock(node.seen_ms)}</dd>
      ${Object.entries(node.labels || {}).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
      ${(node.taints || []).length ? html`<dt>Taints</dt><dd>${node.taints.join(", ")}</dd>` : null}
    </dl>`;
}

const groupBy = (rows, keyOf) => {
  const found = new Map();
  for (const row of rows) found.set(keyOf(row), [...(found.get(keyOf(row)) || []), row]);
  return [...found];
};

/** GPUs in boxes: socket, PCIe switch where it is known, NVLink island; a level that divides nothing is not drawn. */
function Topology({ gpus: cards }) {
  if (!cards.length) return html`<p class="quiet">A machine without GPUs.</p>`;
  const levels = [
    ["Socket", (card) => card.socket || 0],
    ["Switch", (card) => card.switch ?? -1],
    ["NVLink", (card) => card.island || 0],
  ].filter(([, keyOf]) => new Set(cards.map(keyOf)).size > 1);
  const box = (rows, depth) => {
    if (depth === levels.length) return html`<div class="cards">${rows.map((card) => html`<${Card} card=${card} />`)}</div>`;
    const [title, keyOf] = levels[depth];
    return html`<div class="boxes">${groupBy(rows, keyOf).map(([key, own]) => html`<fieldset><legend>${title} ${key < 0 ? "not known" : key}</legend>${box(own, depth + 1)}</fieldset>`)}</div>`;
  };
  return html`<section><h2>GPUs</h2>${box(cards, 0)}</section>`;
}

function Card({ card }) {
  const used = card.milli_used || 0;
  const is_sick = card.healthy === false;
  const title = `${card.model} ${memory(card.memory_mib)}${card.mig ? `, slices (${card.mig})` : ""}${card.uuid ? `, ${card.uuid}` : ""}${card.problem ? `: ${card.problem}` : ""}`;
  return html`<div class=${`card ${is_sick ? "sick" : ""}`} title=${title}>
    <b>${card.index}</b> <span class="quiet">${card.model}</span>
    <div class="bar"><div class="fill" style=${{ width: `${Math.min(100, used / 10)}%` }}></div></div>
    <span class="quiet">${is_sick ? card.problem || "sick" : `${gpus(used)} taken${card.memory_mib_used ? `, ${memory(card.memory_mib_used)}` : ""}`}</span>
  </div>`;
}
