// What administrators set: how each pool decides, dated capacity, tokens, and who changed what when and why.

import { html, useState } from "./vendor/preact-htm.js";
import { call, pages } from "./api.js";
import { clock, counted, duration } from "./format.js";
import { Act, brief, Filter, State, Table, Trouble, useData } from "./parts.js";

const EDITS_MOST = 500;
const KINDS = ["", "policy", "group", "user", "pool", "class", "prices", "window", "token"];
const MEANT_BY_ITSELF = ["version", "levels", "model"];

/** A value as one writes it in a policy file. */
const plain = (value) => (value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value));
const short = (text) => (text.length > 160 ? `${text.slice(0, 160)} ...` : text);

let usual = null;
/** What every setting of a policy is where nobody set it: the description of the API says so. */
async function defaults(signal) {
  usual ??= (await call("GET", "/openapi.json", { signal })).components.schemas.Policy.properties;
  return usual;
}

const rowsOf = (policy, known) => Object.keys(known).filter((name) => !MEANT_BY_ITSELF.includes(name)).map((name) => ({
  name,
  value: plain(policy[name] ?? known[name].default),
  usual: plain(known[name].default),
  is_set: policy[name] !== undefined && plain(policy[name]) !== plain(known[name].default),
}));

export function Policies({ query, who }) {
  const load = async (signal) => {
    const [policies, known] = await Promise.all([call("GET", "/v1/policies", { signal }), defaults(signal)]);
    return { ...policies, known };
  };
  const { data, error, reload } = useData(load, []);
  return html`<h1>Policies</h1>
    <${Trouble} error=${error} />
    ${data ? html`${data.policies.map((one) => html`<${Policy} key=${one.pool} of=${one} known=${data.known} who=${who} reload=${reload} />`)}
      <details><summary>What a formula may look at</summary><dl>${Object.entries(data.factors || {}).map(([name, says]) => html`<dt><code>${name}</code></dt><dd>${says}</dd>`)}</dl></details>` : null}
    <${Edits} query=${query} />`;
}

function Policy({ of, known, who, reload }) {
  const [showsAll, setAll] = useState(false);
  const rows = rowsOf(of.policy, known);
  const value = (name) => rows.find((row) => row.name === name).value;
  const shown = rows.filter((row) => showsAll || row.is_set);
  const levels = Object.entries(of.levels || {}).sort(([, a], [, b]) => b - a);
  return html`<section>
    <h2>Pool ${of.pool}</h2>
    <dl>
      <dt>Order</dt><dd>${value("ordering") === "weighted" ? html`by the formula <code>${value("formula")}</code>` : value("ordering")}</dd>
      <dt>Placement</dt><dd>${value("placement")}</dd>
      <dt>Levels</dt><dd>${levels.map(([name, adds]) => `${name} ${adds}`).join(", ") || "none"}</dd>
      <dt>Version</dt><dd>${of.version || "as by default"}</dd>
    </dl>
    <${Table} name=${`policy-${of.pool}`} rows=${shown} keyOf=${(row) => row.name} empty="Every setting is as by default." columns=${[
      ["Setting", (row) => html`<code>${row.name}</code>`, (row) => row.name],
      ["Is", (row) => (row.is_set ? html`<b>${short(row.value)}</b>` : short(row.value)), (row) => row.value],
      ["By default", (row) => short(row.usual), (row) => row.usual],
    ]} />
    <p><button class="plain" onClick=${() => setAll(!showsAll)}>${showsAll ? "Show what is set only" : "Show all settings"}</button></p>
    ${who.role === "admin" ? html`<${Change} of=${of} known=${known} reload=${reload} />` : null}
  </section>`;
}

const SIZES = { d: 86400, h: 3600, m: 60, s: 1 };

/** A setting's value as people write it: durations also as 1h30m. */
function read(name, { type, default: usual }, text) {
  if (type === "string") return text;
  if (name.endsWith("_s") && /^([0-9]+[dhms])+$/.test(text)) {
    return [...text.matchAll(/([0-9]+)([dhms])/g)].reduce((sum, [, amount, unit]) => sum + Number(amount) * SIZES[unit], 0);
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${text} is no value of ${name}; write it like ${plain(usual)}${name.endsWith("_s") ? ", or like 1h30m" : ""}.`);
  }
}

/** One setting, tried first and set then; whoever was faster is not overwritten. */
function Change({ of, known, reload }) {
  const names = Object.keys(known).filter((name) => !MEANT_BY_ITSELF.includes(name));
  const [name, setName] = useState("formula");
  const [text, setText] = useState("");
  const [why, setWhy] = useState("");
  const [said, setSaid] = useState("");
  const put = async (dry_run) => {
    setSaid("");
    const { [name]: _, version: __, ...rest } = of.policy;
    const own = text.trim();
    const body = own === "" ? rest : { ...rest, [name]: read(name, known[name], own) };
    const query = { ...(dry_run ? { dry_run: true } : {}), why };
    const done = await call("PUT", `/v1/policies/${encodeURIComponent(of.pool)}`, { query, body, headers: { "If-Match": `"${of.version || 0}"` } });
    setSaid([dry_run ? "It would hold from the next round on." : "It holds from the next round on.", ...(done.doubts || [])].join(" "));
  };
  return html`<details><summary>Change a setting</summary>
    <form class="filter" onSubmit=${(event) => event.preventDefault()}>
      <label>Setting <select value=${name} onChange=${(event) => setName(event.target.value)}>${names.map((one) => html`<option value=${one} selected=${one === name}>${one}</option>`)}</select></label>
      <label>Value (empty: as by default) <input value=${text} placeholder=${plain(of.policy[name] ?? known[name].default)} onInput=${(event) => setText(event.target.value)} /></label>
      <label>Why <input value=${why} maxlength="512" onInput=${(event) => setWhy(event.target.value)} /></label>
    </form>
    <p><${Act} does=${() => put(true)}>Check<//> <${Act} asks=${`Change ${name} of pool ${of.pool} for everybody who waits?`} does=${() => put(false)} done=${reload}>Set<//></p>
    ${said ? html`<p class="said">${said}</p>` : null}
    <p class="quiet">What it would have done to the past: <code>gangline lab what-if ARCHIVE --policy page.yaml</code>.</p></details>`;
}

function Edits({ query }) {
  const kind = query.get("kind") || "";
  const load = (signal) => pages("/v1/settings/history", "edits", { signal, query: { kind }, most: EDITS_MOST });
  const { data, error } = useData(load, [kind]);
  return html`<h2>Who changed what</h2>
    <${Filter} page="policies" query=${query} fields=${[{ name: "kind", label: "Kind", options: KINDS }]} />
    <${Trouble} error=${error} />
    ${data ? html`${data.more ? html`<p class="quiet">The last ${data.found.length} edits; the archive of the log has all.</p>` : null}
      <${Table} name="edits" rows=${data.found} keyOf=${(edit) => edit.number} empty="No setting was changed." columns=${[
        brief("When", (edit) => clock(edit.at_ms), (edit) => edit.at_ms),
        ["By", (edit) => edit.by],
        ["What", (edit) => `${edit.kind} ${edit.name || (edit.kind === "group" ? "everything" : "")} ${edit.act}`],
        ["From and to", (edit) => (edit.changes || []).map((one) => html`<div>${changed(one)}</div>`), (edit) => (edit.changes || []).map(changed).join("; ")],
        ["Why", (edit) => edit.why || ""],
      ]} />` : null}`;
}

const changed = (one) => short(`${one.field}: ${one.before === undefined ? "" : `${moment(one.field, one.before)} → `}${one.after === undefined ? "as by default" : moment(one.field, one.after)}`);
const moment = (field, value) => (field.endsWith("_ms") && value > 1e11 ? clock(value) : plain(value));

/** Dated capacity: for maintenance, or for some. */
export function Windows({ who }) {
  const load = (signal) => call("GET", "/v1/windows", { signal });
  const { data, error, reload } = useData(load, []);
  const is_admin = who.role === "admin";
  const whom = (window) => [...(window.groups || []), ...(window.users || [])].join(", ") || "nobody (maintenance)";
  const columns = [
    ["Window", ({ window }) => window.name],
    ["State", (one) => html`<${State} name=${one.is_on ? "on" : "to come"} />`, (one) => (one.is_on ? "on" : "to come")],
    ["Pool", ({ window }) => window.pool],
    ["Nodes", ({ window }) => html`<span title=${(window.nodes || []).join(", ")}>${short((window.nodes || []).join(", "))}</span>`, ({ window }) => (window.nodes || []).join(" ")],
    brief("From", ({ window }) => clock(window.start_ms), ({ window }) => window.start_ms),
    brief("To", ({ window }) => clock(window.end_ms), ({ window }) => window.end_ms),
    brief("Lasts", ({ window }) => duration(window.end_ms - window.start_ms), ({ window }) => window.end_ms - window.start_ms),
    ["For", ({ window }) => whom(window)],
    ["Why", ({ window }) => window.why || ""],
    ["Still runs into it", (one) => (one.running_jobs || []).map((job) => html`<a href=${`#/jobs/${job}`}>${job}</a> `), (one) => (one.running_jobs || []).join(" ")],
    ...(is_admin ? [["", ({ window }) => html`<${Act} asks=${`Give the nodes of ${window.name} back?`} done=${reload} does=${() => call("DELETE", `/v1/windows/${encodeURIComponent(window.name)}`)}>Give back<//>`, () => ""]] : []),
  ];
  return html`<h1>Windows</h1>
    <${Trouble} error=${error} />
    <p class="quiet">No job starts on these nodes that would run into the time kept; what runs goes on.</p>
    ${data ? html`<${Table} name="windows" columns=${columns} rows=${data.windows || []} keyOf=${({ window }) => window.name} empty="No capacity is dated." />` : null}
    ${is_admin ? html`<${Keep} reload=${reload} />` : null}`;
}

function Keep({ reload }) {
  const [form, setForm] = useState({ name: "", pool: "default", nodes: "", from: "", hours: "2", groups: "", why: "" });
  const field = (name, title, hint = "", type = "text") => html`<label>${title} <input type=${type} value=${form[name]} placeholder=${hint} onInput=${(event) => setForm({ ...form, [name]: event.target.value })} /></label>`;
  const listed = (text) => text.split(/[\s,]+/).filter(Boolean);
  const keep = () => {
    const start_ms = new Date(form.from).getTime();
    const hours = Number(form.hours);
    if (!form.name || Number.isNaN(start_ms)) throw new Error("Say what it is called and when it begins.");
    if (!(hours > 0)) throw new Error("Say how many hours it lasts: 2, or 0.5 for half an hour.");
    const body = { pool: form.pool, nodes: listed(form.nodes), groups: listed(form.groups), start_ms, end_ms: start_ms + Math.round(3.6e6 * hours), why: form.why };
    return call("PUT", `/v1/windows/${encodeURIComponent(form.name)}`, { body, headers: { "If-None-Match": "*" } });
  };
  return html`<details><summary>Keep nodes</summary>
    <form class="filter" onSubmit=${(event) => event.preventDefault()}>
      ${field("name", "Called", "rack-7-update")}${field("pool", "In pool")}${field("nodes", "Nodes, by name (none: the whole pool)", "n1, n2")}${field("from", "From (your clock)", "", "datetime-local")}${field("hours", "Hours", "2", "number")}
      ${field("groups", "For groups (none: maintenance)", "research/vision, lab")}${field("why", "Why")}
    </form>
    <p class="quiet">Several nodes or groups stand apart by commas or spaces. Where no node is named, all of the pool is kept, and what joins it later.</p>
    <p><${Act} does=${async () => keep()} done=${reload}>Keep<//></p></details>`;
}

const fate = (token) => (token.revoked ? "revoked" : token.expires_ms && token.expires_ms < Date.now() ? "expired" : "valid");

/** Who may do what: every token that one may see, by its hash. */
export function Tokens({ who }) {
  const load = (signal) => call("GET", "/v1/tokens", { signal });
  const { data, error, reload } = useData(load, []);
  const revoke = (token) => html`<${Act} asks=${`Make token ${token.name} of ${token.user} useless?`} done=${reload} does=${() => call("DELETE", `/v1/tokens/${token.digest}`)}>Revoke<//>`;
  const columns = [
    ["Token", (token) => html`<code>${token.digest.slice(0, 12)}</code>`, (token) => token.digest],
    ["Name", (token) => token.name],
    ["State", (token) => html`<${State} name=${fate(token)} />`, fate],
    ["Role", (token) => token.role],
    ["User", (token) => token.user],
    ["Groups", (token) => (token.groups || []).join(", ") || "all"],
    brief("Expires", (token) => clock(token.expires_ms) || "never", (token) => token.expires_ms || Infinity),
    ...(who.role === "readonly" ? [] : [["", (token) => (fate(token) === "valid" ? revoke(token) : ""), () => ""]]),
  ];
  return html`<h1>Tokens</h1>
    <${Trouble} error=${error} />
    ${data ? html`<p class="quiet">${counted(data.tokens.filter((token) => fate(token) === "valid").length, "token opens", "tokens open")} something.
        A new one: <code>gangline token issue NAME --user USER --group GROUP</code>; its text is shown once, there.</p>
      ${data.left_out ? html`<p class="quiet">${data.left_out} more than one answer may hold are not shown.</p>` : null}
      <${Table} name="tokens" columns=${columns} rows=${data.tokens} keyOf=${(token) => token.digest} empty="None that you may see." />` : null}`;
}
