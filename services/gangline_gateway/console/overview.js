// What the fleet is doing, whether my jobs will run, and what just happened.

import { html, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { call, feed, pages } from "./api.js";
import { clock, duration, gpus, percent, waited } from "./format.js";
import { Fleet } from "./fleet.js";
import { JobLink, Line, Trouble, useData, Why } from "./parts.js";

const NODES_MOST = 2_000;
const POINTS_MOST = 600;
const EVENTS_MOST = 40;

async function load(signal) {
  const [cluster, nodes, own] = await Promise.all([
    call("GET", "/v1/cluster", { signal }),
    pages("/v1/nodes", "nodes", { signal, most: NODES_MOST, query: { limit: 500 } }),
    call("GET", "/v1/jobs", { signal, query: { state: "waiting", limit: 10 } }),
  ]);
  return { cluster, nodes, own: own.jobs };
}

export function Overview() {
  const { data, error } = useData(load, []);
  const points = useHistory(data && data.cluster);
  if (!data) return html`<${Trouble} error=${error} />`;
  const { cluster, nodes, own } = data;
  return html`<${Trouble} error=${error} />
    <section class="numbers">
      <${Number_} value=${`${gpus(cluster.gpus_used_milli)} of ${cluster.gpus_total}`} label=${`GPUs in use ${percent(cluster.gpus_used_milli, cluster.gpus_total * 1000)}`} />
      <${Number_} value=${cluster.running} label="jobs running" />
      <${Number_} value=${cluster.waiting} label="jobs waiting" />
      <${Number_} value=${`${cluster.nodes_ready} of ${cluster.nodes}`} label="nodes take work" />
      ${cluster.gpus_sick ? html`<${Number_} value=${cluster.gpus_sick} label="GPUs sick or away" alarm />` : null}
    </section>
    <section><h2>GPUs in use since this page was opened</h2><${Line} points=${points} label="GPUs in use" top=${cluster.gpus_total} /></section>
    <section><h2>The fleet</h2><${Fleet} nodes=${nodes.found} more=${nodes.more} /></section>
    <div class="two">
      <section><h2>Waiting, and why</h2>
        ${own.length
          ? html`<ul class="lines">${own.map((job) => html`<li key=${job.id}><${JobLink} id=${job.id} name=${job.name} of=${job} />
              <span class="quiet"> ${gpus(job.gpu_milli)} GPUs, ${job.group}, for ${duration(waited(job))}</span>
              <div><${Why} reason=${job.reason} /></div></li>`)}</ul>`
          : html`<p class="quiet">None of the jobs that you may see waits.</p>`}
      </section>
      <section><h2>Just now</h2><${Happenings} /></section>
    </div>`;
}

const Number_ = ({ value, label, alarm }) => html`<div class=${alarm ? "number alarm" : "number"}><b>${value}</b><span>${label}</span></div>`;

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
    <span class="quiet">${clock(event.at)}</span> <b>${event.event}</b> ${event.job ? html`<${JobLink} id=${event.job} name=${event.name} />` : null} ${event.message}</li>`)}</ul>`;
}
