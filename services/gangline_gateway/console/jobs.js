// Jobs, newest first, a page at a time; the filter is the server's.

import { html } from "./vendor/preact-htm.js";
import { call } from "./api.js";
import { clock, duration, gpus, sum, waited } from "./format.js";
import { brief, Filter, JobLink, State, Table, Trouble, useData, WhyShort } from "./parts.js";

const STATES = ["", "held", "waiting", "starting", "running", "resizing", "paused", "suspended", "stopping", "succeeded", "failed", "cancelled", "timed_out", "lost"];
const FILTERS = ["state", "group", "user", "pool", "name", "label", "array"];
const PAGE = 100;

const ran = (job) => (job.ended_ms || Date.now()) - job.started_ms;

const COLUMNS = [
  ["Job", (job) => html`<${JobLink} id=${job.id} name=${job.name} of=${job} />`, (job) => job.id],
  ["State", (job) => html`<${State} name=${job.state} />`, (job) => job.state],
  ["Group", (job) => job.group],
  ["User", (job) => job.user],
  ["Pool", (job) => job.pool],
  ["GPUs", (job) => gpus(job.gpu_milli_held || job.gpu_milli || 0)],
  ["Tasks", (job) => sum(job.sizes) || job.size],
  brief("Submitted", (job) => clock(job.submitted_ms), (job) => job.submitted_ms),
  brief("Waited", (job) => duration(waited(job)), waited),
  brief("Ran", (job) => (job.started_ms ? duration(ran(job)) : ""), (job) => (job.started_ms ? ran(job) : 0)),
  ["Reason", (job) => html`<div class="why"><${WhyShort} reason=${job.reason} /></div>`, (job) => (job.reason ? job.reason.sentence : "")],
];

export function Jobs({ query }) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) || ""]));
  const cursor = query.get("cursor") || "";
  const load = (signal) => call("GET", "/v1/jobs", { signal, query: { ...filters, cursor, order: "desc", limit: PAGE } });
  const { data, error } = useData(load, [query.toString()]);
  const following = new URLSearchParams(query);
  if (data && data.next) following.set("cursor", data.next);
  const uncut = new URLSearchParams(query);
  uncut.delete("cursor");
  return html`<h1>Jobs</h1>
    <${Filter} page="jobs" query=${uncut} fields=${[
      { name: "state", label: "State", options: STATES },
      { name: "group", label: "Group" },
      { name: "user", label: "User" },
      { name: "pool", label: "Pool" },
      { name: "name", label: "Name" },
      { name: "label", label: "Label" },
    ]} />
    <${Trouble} error=${error} />
    ${data ? html`<${Table} name="jobs" columns=${COLUMNS} rows=${data.jobs} keyOf=${(job) => job.id} empty="No such jobs." />` : null}
    <p>${cursor ? html`<a href=${`#/jobs?${uncut}`}>newest</a> ` : null}${data && data.next ? html`<a href=${`#/jobs?${following}`}>older</a>` : null}</p>`;
}
