// The queue of a pool in the order in which it is served, each job with its reason; the filters are the server's.

import { html } from "./vendor/preact-htm.js";
import { call } from "./api.js";
import { counted, duration, expected, gpus, score } from "./format.js";
import { Act, brief, Filter, JobLink, Table, Trouble, useData, WhyShort } from "./parts.js";

const FILTERS = ["group", "user", "name", "reason"];
const LINES = 200;

export function Queue({ query, who }) {
  const pool = query.get("pool") || "default";
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) || ""]));
  const load = async (signal) => {
    const [queue, cluster] = await Promise.all([
      call("GET", "/v1/queue", { signal, query: { pool, ...filters, limit: query.get("all") ? "" : LINES } }),
      call("GET", "/v1/cluster", { signal }),
    ]);
    return { queue, pools: cluster.pools.map((one) => one.name) };
  };
  const { data, error, reload } = useData(load, [query.toString()]);
  const columns = [
    ["#", (line) => line.position],
    ["Job", (line) => html`<${JobLink} id=${line.id} name=${line.name} of=${line} />`, (line) => line.id],
    ["Group", (line) => line.group],
    ["User", (line) => line.user],
    ["Level", (line) => line.level],
    ["GPUs", (line) => gpus(line.gpu_milli), null, (line) => line.gpu_milli],
    ["Tasks", (line) => line.size],
    brief("Waits", (line) => duration(line.waited_ms), (line) => line.waited_ms),
    ["Score", (line) => (line.score === undefined || line.score === null ? "" : score(line.score)), null, (line) => line.score ?? 0],
    ["Why", (line) => html`<div class="why"><${WhyShort} reason=${line.reason} /></div>`, (line) => line.reason.sentence],
    brief("Starts", (line) => expected(line.start_from_ms, line.start_to_ms), (line) => line.start_to_ms ?? Infinity),
  ];
  if (who.role !== "readonly") {
    columns.push(["", (line) => html`<${Act} done=${reload} does=${() => call("POST", `/v1/jobs/${line.id}/top`, { body: {} })}>top<//>`, () => ""]);
  }
  return html`<h1>Queue</h1>
    <${Filter} page="queue" query=${query} standing=${{ pool }} fields=${[
      { name: "pool", label: "Pool", options: data ? data.pools : [pool] },
      { name: "group", label: "Group" },
      { name: "user", label: "User" },
      { name: "name", label: "Name" },
      { name: "reason", label: "Reason" },
    ]} />
    <${Trouble} error=${error} />
    ${data ? html`<${Sums} queue=${data.queue} query=${query} filters=${filters} />
      <${Table} name=${`queue-${pool}`} columns=${columns} rows=${data.queue.lines} keyOf=${(line) => line.id}
        empty=${data.queue.waiting ? "None of the jobs that wait here is like that, or you may not see it." : "Nobody waits here."} />
      ${data.queue.lines.length < data.queue.matching && !query.get("all") ? html`<p><a href=${here(query, { all: "1" })}>as many as one answer holds</a></p>` : null}` : null}`;
}

const here = (query, more) => `#/queue?${new URLSearchParams({ ...Object.fromEntries(query), ...more })}`;

/** How many there are, how many are shown, and what they wait for in sum. */
function Sums({ queue, query, filters }) {
  const is_part = queue.lines.length < queue.matching;
  const is_filtered = Object.values(filters).some(Boolean);
  return html`<p class="quiet">${counted(queue.waiting, "job waits", "jobs wait")} in this pool${is_filtered ? `; ${queue.matching} of them are like that` : queue.matching < queue.waiting ? `; you may see ${queue.matching}` : ""}${is_part ? `; the first ${queue.lines.length} are shown` : ""}.</p>
    ${queue.matching > 1 ? html`<p class="sums">${queue.waiting_for.map((one) => html`<a key=${`${one.code} ${one.of}`} class="sum" title=${one.sentence} href=${here(query, { reason: one.code })}><b>${one.jobs}</b> ${one.code}${one.of ? html` <span class="quiet">${one.of}</span>` : null}</a> `)}</p>` : null}`;
}
