// What the fleet is doing, whether my jobs will run, and what just happened.

import { html, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { call, feed, pages } from "./api.js";
import { clock, counted, duration, gpus, local, percent } from "./format.js";
import { Fleet } from "./fleet.js";
import { Bar, JobLink, Line, Trouble, useData, WhyShort } from "./parts.js";

const NODES_MOST = 2_000;
const POINTS_MOST = 600;
const EVENTS_MOST = 40;

const POOLS_MOST = 12;
const NEXT_MOST = 5;
const SUMS_MOST = 8;

async function load(signal) {
  const [cluster, nodes] = await Promise.all([
    call("GET", "/v1/cluster", { signal }),
    pages("/v1/nodes", "nodes", { signal, most: NODES_MOST, query: { limit: 500 } }),
  ]);
  const pools = cluster.waiting ? cluster.pools.slice(0, POOLS_MOST) : [];
  const queues = await Promise.all(pools.map((pool) => call("GET", "/v1/queue", { signal, query: { pool: pool.name, limit: NEXT_MOST } })));
  return { cluster, nodes, queues: queues.filter((queue) => queue.matching) };
}

export function Overview() {
  const { data, error } = useData(load, []);
  const points = useHistory(data && data.cluster);
  if (!data) return html`<${Trouble} error=${error} />`;
  const { cluster, nodes, queues } = data;
  return html`<${Trouble} error=${error} />
    <section class="numbers">
      <${Number_} value=${`${gpus(cluster.gpus_used_milli)} of ${cluster.gpus_total}`} label=${`GPUs in use ${percent(cluster.gpus_used_milli, cluster.gpus_total * 1000)}`} />
      <${Number_} value=${cluster.running} label="jobs running" />
      <${Number_} value=${cluster.waiting} label="jobs waiting" />
      <${Number_} value=${`${cluster.nodes_ready} of ${cluster.nodes}`} label="nodes take work" />
      ${cluster.gpus_sick ? html`<${Number_} value=${cluster.gpus_sick} label="GPUs sick or away" alarm />` : null}
    </section>
    <section><h2>GPUs by model</h2><${Models} cluster=${cluster} nodes=${nodes} /></section>
    <section><h2>GPUs in use since this page was opened</h2><${Line} points=${points} label="GPUs in use" top=${cluster.gpus_total} /></section>
    <section><h2>The fleet</h2><${Fleet} nodes=${nodes.found} more=${nodes.more} /></section>
    <div class="two">
      <section><h2>Waiting, and why</h2>
        ${queues.length
          ? queues.map((queue) => html`<${Waiting} queue=${queue} of=${queues.length} />`)
          : html`<p class="quiet">None of the jobs that you may see waits.</p>`}
      </section>
      <section><h2>Just now</h2><${Happenings} /></section>
    </div>`;
}

const Number_ = ({ value, label, alarm }) => html`<div class=${alarm ? "number alarm" : "number"}><b>${value}</b><span>${label}</span></div>`;

/** What is free of each model, and the most of it on one node that takes work: what a gang of one node could have. */
function Models({ cluster, nodes }) {
  const free = new Map();
  for (const node of nodes.found.filter((one) => one.state === "ready")) {
    const own = new Map();
    for (const gpu of node.gpus || []) {
      const is_free = gpu.healthy !== false && !gpu.milli_used;
      own.set(gpu.model, (own.get(gpu.model) || 0) + (is_free ? 1 : 0));
    }
    for (const [model, count] of own) {
      const known = free.get(model) || { all: 0, most: 0 };
      free.set(model, { all: known.all + count, most: Math.max(known.most, count) });
    }
  }
  return html`<div class="models">${cluster.gpus.map((one) => {
    const found = free.get(one.model) || { all: 0, most: 0 };
    return html`<div key=${one.model}><b>${one.model}</b> <span class="quiet">${gpus(one.used_milli)} of ${one.total} in use${one.sick ? `, ${one.sick} sick or away` : ""}</span>
      <${Bar} used=${one.used_milli} total=${one.total * 1000} label=${`${gpus(one.used_milli)} of ${one.total} ${one.model} in use`} />
      <span class="quiet">${nodes.more ? "" : found.all ? `${found.all} whole ones free, at most ${found.most} on one node` : "none wholly free"}</span></div>`;
  })}</div>`;
}

/** What the jobs of a pool wait for, in sum, and those whose turn is next. */
function Waiting({ queue, of }) {
  const more = queue.waiting_for.length - SUMS_MOST;
  const to = (one) => `#/queue?${new URLSearchParams({ pool: queue.pool, reason: one.code })}`;
  return html`<div>
    ${of > 1 ? html`<h3>Pool ${queue.pool}</h3>` : null}
    <ul class="lines">${queue.waiting_for.slice(0, SUMS_MOST).map((one) => html`<li key=${`${one.code} ${one.of}`}>
      <a href=${to(one)}>${counted(one.jobs, "job", "jobs")}</a> <span class="quiet">for ${counted(gpus(one.gpu_milli), "GPU", "GPUs")}: ${one.code}${one.of ? ` of ${one.of}` : ""}</span>
      <div>${local(one.sentence)} ${one.jobs > 1 ? html`<span class="quiet">(job <a href=${`#/jobs/${one.first}`}>${one.first}</a>)</span>` : null}</div></li>`)}</ul>
    ${more > 0 ? html`<p class="quiet">${counted(more, "other reason", "other reasons")}: <a href=${`#/queue?pool=${encodeURIComponent(queue.pool)}`}>the queue</a> has them all.</p>` : null}
    <h3>Next in turn</h3>
    <ul class="lines">${queue.lines.map((line) => html`<li key=${line.id}>${line.position}. <${JobLink} id=${line.id} name=${line.name} of=${line} />
      <span class="quiet"> ${counted(gpus(line.gpu_milli), "GPU", "GPUs")}, ${line.user} of ${line.group}, for ${duration(line.waited_ms)}</span>
      <div><${WhyShort} reason=${line.reason} /></div></li>`)}</ul></div>`;
}

/** GPUs in use at each answer that came. */
function useHistory(cluster) {
  const [points, setPoints] = useState([]);
  useEffect(() => {
    if (!cluster) return;
    setPoints((before) => [...before, [Date.now() / 1000, cluster.gpus_used_milli / 1000]].slice(-POINTS_MOST));
  }, [cluster]);
  return points;
}

/** The newest events, newest first; drawn at most twice a second however many there are. */
function Happenings() {
  const kept = useRef([]);
  const [, draw] = useState(0);
  useEffect(() => {
    let timer = null;
    const unlisten = feed.listen((event) => {
      if (!event) return;
      kept.current = [event, ...kept.current].slice(0, EVENTS_MOST);
      timer ??= setTimeout(() => { timer = null; draw((turn) => turn + 1); }, 500);
    });
    return () => { clearTimeout(timer); unlisten(); };
  }, []);
  if (!kept.current.length) return html`<p class="quiet">Nothing since this page was opened.</p>`;
  return html`<ul class="lines short">${kept.current.map((event) => html`<li key=${event.id}>
    <span class="quiet">${clock(event.at)}</span> <b>${event.event}</b> ${event.job ? html`<${JobLink} id=${event.job} name=${event.name} />` : null} ${local(event.message)}</li>`)}</ul>`;
}
