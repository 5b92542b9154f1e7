// The queue of a pool in the order in which it is served, each job with its reason.

import { html } from "./vendor/preact-htm.js";
import { call } from "./api.js";
import { duration, expected, gpus, score } from "./format.js";
import { Act, Filter, JobLink, Table, Trouble, useData, Why } from "./parts.js";

export function Queue({ query, who }) {
  const pool = query.get("pool") || "default";
  const load = async (signal) => {
    const [queue, cluster] = await Promise.all([
      call("GET", "/v1/queue", { signal, query: { pool } }),
      call("GET", "/v1/cluster", { signal }),
    ]);
    return { queue, pools: cluster.pools.map((one) => one.name) };
  };
  const { data, error, reload } = useData(load, [pool]);
  const words = (query.get("find") || "").toLowerCase();
  const fits = (line) => !words || [line.id, line.name, line.group, line.user, line.reason.sentence].join(" ").toLowerCase().includes(words);
  const columns = [
    ["#", (line) => line.position],
    ["Job", (line) => html`<${JobLink} id=${line.id} name=${line.name} of=${line} />`, (line) => line.id],
    ["Group", (line) => line.group],
    ["User", (line) => line.user],
    ["Level", (line) => line.level],
    ["GPUs", (line) => gpus(line.gpu_milli)],
    ["Tasks", (line) => line.size],
    ["Waits", (line) => duration(line.waited_ms)],
    ["Score", (line) => (line.score === undefined || line.score === null ? "" : score(line.score))],
    ["Why", (line) => html`<${Why} reason=${line.reason} />`, (line) => line.reason.sentence],
    ["Starts", (line) => expected(line.start_from_ms, line.start_to_ms)],
  ];
  if (who.role !== "readonly") {
    columns.push(["", (line) => html`<${Act} done=${reload} does=${() => call("POST", `/v1/jobs/${line.id}/top`, { body: {} })}>top<//>`, () => ""]);
  }
  return html`<h1>Queue</h1>
    <${Filter} page="queue" query=${query} standing=${{ pool }} fields=${[
      { name: "pool", label: "Pool", options: data ? data.pools : [pool] },
      { name: "find", label: "With the words" },
    ]} />
    <${Trouble} error=${error} />
    ${data ? html`<p class="quiet">${data.queue.waiting} wait in this pool; you may see ${data.queue.lines.length}.</p>
      <${Table} name=${`queue-${pool}`} columns=${columns} rows=${data.queue.lines.filter(fits)} keyOf=${(line) => line.id}
        empty="Nobody waits here." />` : null}`;
}
