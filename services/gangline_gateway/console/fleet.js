// All GPUs at one look: a square each, the GPUs of a node side by side, full where they are taken.

import { html, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { gpus } from "./format.js";

const GAP = 5;

/** Size of a square, by how many there are. */
const side = (count) => (count > 8000 ? 4 : count > 2000 ? 6 : count > 600 ? 9 : 13);

/** Where each node's squares begin, in rows of this width. */
function layOut(nodes, width) {
  const size = side(nodes.reduce((sum, node) => sum + Math.max(1, (node.gpus || []).length), 0));
  const places = [];
  let x = 0;
  let y = 0;
  for (const node of nodes) {
    const wide = Math.max(1, (node.gpus || []).length) * (size + 1) + GAP;
    if (x && x + wide > width) {
      x = 0;
      y += size + GAP;
    }
    places.push({ node, x, y, wide });
    x += wide;
  }
  return { places, size, height: y + size + GAP };
}

function paint(canvas, { places, size }, ink) {
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  for (const { node, x, y } of places) {
    const is_away = node.state === "lost" || node.state === "sick";
    (node.gpus && node.gpus.length ? node.gpus : [null]).forEach((gpu, index) => {
      const left = x + index * (size + 1);
      const is_sick = is_away || (gpu && gpu.healthy === false);
      pen.fillStyle = is_sick ? ink.sick : node.state === "drained" ? ink.drained : ink.free;
      pen.fillRect(left, y, size, size);
      const used = gpu ? (gpu.milli_used || 0) / 1000 : node.cpu_milli ? node.cpu_milli_used / node.cpu_milli : 0;
      if (used > 0 && !is_sick) {
        const tall = Math.max(2, Math.round(size * Math.min(1, used)));
        pen.fillStyle = ink.used;
        pen.fillRect(left, y + size - tall, size, tall);
      }
      // What takes no new work is seen to be so also where it is still in use.
      if (node.state === "drained" && used > 0) {
        pen.fillStyle = ink.drained;
        pen.fillRect(left, y, size, Math.max(2, Math.round(size / 3)));
      }
    });
  }
}

const sentence = (node) => {
  const cards = node.gpus || [];
  const used = cards.reduce((sum, gpu) => sum + (gpu.milli_used || 0), 0);
  const what = cards.length ? `${gpus(used)} of ${cards.length} ${[...new Set(cards.map((gpu) => gpu.model))].join(", ")}` : "no GPUs";
  return `${node.id}: ${what}, ${node.task_count || 0} tasks, ${node.state}${node.why ? ` (${node.why})` : ""}`;
};

export function Fleet({ nodes, more }) {
  const canvas = useRef(null);
  const drawn = useRef(null);
  const [width, setWidth] = useState(0);
  const [told, setTold] = useState("");
  useEffect(() => {
    const fit = new ResizeObserver(() => setWidth(canvas.current.parentElement.clientWidth));
    fit.observe(canvas.current.parentElement);
    return () => fit.disconnect();
  }, []);
  useEffect(() => {
    if (!width) return;
    const style = getComputedStyle(document.documentElement);
    const ink = Object.fromEntries(["free", "used", "drained", "sick"].map((name) => [name, style.getPropertyValue(`--${name}`)]));
    const plan = layOut(nodes, width);
    const scale = window.devicePixelRatio || 1;
    canvas.current.width = width * scale;
    canvas.current.height = plan.height * scale;
    canvas.current.style.height = `${plan.height}px`;
    canvas.current.getContext("2d").scale(scale, scale);
    paint(canvas.current, plan, ink);
    drawn.current = plan;
  }, [nodes, width]);
  const under = (event) => {
    const { left, top } = canvas.current.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    const size = drawn.current.size;
    const found = drawn.current.places.find((place) => x >= place.x && x < place.x + place.wide && y >= place.y && y < place.y + size + GAP);
    return found && found.node;
  };
  if (!nodes.length) return html`<p class="quiet" ref=${canvas}>No node has joined. <code>gangline agent</code> joins one.</p>`;
  return html`<div><canvas class="fleet" ref=${canvas} role="img" aria-label=${`${nodes.length} nodes; the page Nodes lists them`}
      onMouseMove=${(event) => { const node = under(event); setTold(node ? sentence(node) : ""); }}
      onMouseLeave=${() => setTold("")}
      onClick=${(event) => { const node = under(event); if (node) location.hash = `#/nodes/${encodeURIComponent(node.id)}`; }}></canvas>
    <p class="quiet told">${told || html`<span class="key used"></span> taken <span class="key free"></span> free <span class="key drained"></span> drained <span class="key sick"></span> sick or away${more ? `; the first ${nodes.length} nodes` : ""}`}</p></div>`;
}
