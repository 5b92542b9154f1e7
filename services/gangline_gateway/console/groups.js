// Who uses what: the tree of groups with guarantees, limits and what is held now.

import { html } from "./vendor/preact-htm.js";
import { call } from "./api.js";
import { amount, gpus, percent } from "./format.js";
import { Bar, Table, Trouble, useData } from "./parts.js";

const GPU = "gpu_milli";

async function load(signal) {
  const [groups, cluster, usage] = await Promise.all([
    call("GET", "/v1/groups", { signal }),
    call("GET", "/v1/cluster", { signal }),
    call("GET", "/v1/usage", { signal }),
  ]);
  return { groups: groups.groups, whole: cluster.gpus_total * 1000, lines: usage.lines, left: usage.left_out || 0 };
}

const depth = (path) => (path ? path.split("/").length : 0);
/** Amounts of a quota as people say them: 64 GPUs, 8 A100, 200 CPUs, 2 TiB of memory. */
const told = (amounts) => Object.entries(amounts || {}).sort().reverse().map(([dimension, value]) => `${amount(dimension, value)} ${called(dimension)}`).join(", ");
const called = (dimension) => {
  const [kind, model] = dimension.split(":");
  if (kind === "gpu_milli") return model || "GPUs";
  return { cpu_milli: "CPUs", memory_mib: "memory", gpu_memory_mib: "GPU memory" }[kind] || dimension;
};

export function Groups() {
  const { data, error } = useData(load, []);
  if (!data) return html`<h1>Groups</h1><${Trouble} error=${error} />`;
  const columns = [
    ["Group", (group) => html`<span style=${{ paddingLeft: `${depth(group.path)}em` }}>${group.path ? group.path.split("/").pop() : "everything"}</span>`, (group) => group.path],
    ["GPUs held", (group) => gpus((group.usage || {})[GPU] || 0)],
    ["", (group) => html`<${Share} group=${group} whole=${data.whole} />`, () => ""],
    ["Guaranteed", (group) => told(group.settings.guaranteed)],
    ["Limit", (group) => told(group.settings.limit)],
    ["Weight", (group) => group.settings.weight ?? 1],
    ["Unfinished jobs", (group) => group.unfinished || 0],
    ["GPU hours", (group) => (group.used_gpu_hours || 0).toFixed(1), null, (group) => group.used_gpu_hours || 0],
    ["Budget", (group) => (group.settings.budget_gpu_hours ? `${group.settings.budget_gpu_hours} h${group.budget_exhausted ? ", spent" : ""}` : "")],
  ];
  const users = data.lines.filter((line) => line.user);
  return html`<h1>Groups</h1>
    <${Trouble} error=${error} />
    <p class="quiet">The bar is what is held of all GPUs; <span class="key guaranteed"></span> guarantee, <span class="key limit"></span> limit. What is held beyond the guarantee is borrowed and can be asked back.</p>
    <${Table} name="groups" columns=${columns} rows=${data.groups} keyOf=${(group) => group.path || "~"} empty="There are no groups." />
    <h2>Users</h2>
    ${data.left ? html`<p class="quiet">${data.left} more than one answer may hold are not shown.</p>` : null}
    <${Table} name="users" rows=${users} keyOf=${(line) => `${line.group}/${line.user}`} empty="Nobody has used anything yet." columns=${[
      ["User", (line) => line.user],
      ["Group", (line) => line.group],
      ["GPUs held", (line) => gpus((line.holds || {})[GPU] || 0)],
      ["Unfinished jobs", (line) => line.unfinished || 0],
      ["GPU hours", (line) => (line.gpu_hours || 0).toFixed(1), null, (line) => line.gpu_hours || 0],
    ]} />`;
}

function Share({ group, whole }) {
  const used = (group.usage || {})[GPU] || 0;
  const guaranteed = (group.settings.guaranteed || {})[GPU] || 0;
  const limit = (group.settings.limit || {})[GPU] || 0;
  const marks = [
    { kind: "guaranteed", at: guaranteed, title: `guaranteed ${gpus(guaranteed)}` },
    { kind: "limit", at: limit, title: `limit ${gpus(limit)}` },
  ];
  return html`<${Bar} used=${used} total=${whole} marks=${marks} label=${`${percent(used, whole) || "none"} of all GPUs`} />`;
}
