// The shell: who is here, which page, and the way between pages. Every view has an address of its own.

import { html, render, useEffect, useState } from "./vendor/preact-htm.js";
import { call, feed, token } from "./api.js";
import { Groups } from "./groups.js";
import { Job } from "./job.js";
import { Jobs } from "./jobs.js";
import { Node, Nodes } from "./nodes.js";
import { Overview } from "./overview.js";
import { Queue } from "./queue.js";
import { Policies, Tokens, Windows } from "./settings.js";
import { Try } from "./try.js";

const PAGES = [
  ["", "Overview", Overview],
  ["queue", "Queue", Queue],
  ["jobs", "Jobs", Jobs],
  ["nodes", "Nodes", Nodes],
  ["groups", "Groups", Groups],
  ["policies", "Policies", Policies],
  ["windows", "Windows", Windows],
  ["tokens", "Tokens", Tokens],
  ["try", "Would it run?", Try],
];
const DETAILS = { jobs: Job, nodes: Node };

/** "#/jobs/42?tail=9" as {page, id, query}. */
function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/");
  return { page, id: decodeURIComponent(rest.join("/")), query: new URLSearchParams(query || "") };
}

/** A token in the address, as `gangline up` prints it, is taken and leaves the address at once. */
function take_token() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    token.set(given);
    history.replaceState(null, "", location.pathname);
  }
}

function Entrance({ error, onToken }) {
  const [text, setText] = useState("");
  const enter = (event) => {
    event.preventDefault();
    onToken(text);
  };
  return html`<main class="entrance">
    <h1><img src="icon.svg" alt="" width="28" height="28" /> Gangline</h1>
    <form onSubmit=${enter}>
      <label>Token <input type="password" autocomplete="off" autofocus value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <button>Enter</button>
    </form>
    ${error ? html`<p class="trouble" role="alert">${error}</p>` : null}
    <p class="quiet">The token is what <code>gangline up</code> printed at its first start, or one made by <code>gangline token issue</code>.
    It stays in this browser tab and is sent to this gateway only.</p>
  </main>`;
}

function App() {
  const [who, setWho] = useState(null);
  const [error, setError] = useState("");
  const [at, setAt] = useState(place());
  const [isLive, setLive] = useState(false);

  const enter = async (text) => {
    token.set(text);
    try {
      setWho(await call("GET", "/v1/whoami"));
      setError("");
      feed.start();
    } catch (problem) {
      token.forget();
      setError(problem.message);
    }
  };
  const leave = (why = "") => {
    feed.stop();
    token.forget();
    setError(why);
    setWho(null);
  };

  useEffect(() => {
    token.refused = (problem) => leave(problem.message);
    const move = () => setAt(place());
    window.addEventListener("hashchange", move);
    const unlisten = feed.listen(() => setLive(feed.isOpen));
    if (token.get()) enter(token.get());
    return () => {
      window.removeEventListener("hashchange", move);
      unlisten();
    };
  }, []);

  const known = PAGES.find(([page]) => page === at.page);
  useEffect(() => {
    document.title = [at.id, known && known[1], "Gangline"].filter(Boolean).join(" - ");
  }, [at]);

  if (!who) return html`<${Entrance} error=${error} onToken=${enter} />`;
  const Page = (at.id && DETAILS[at.page]) || (known && known[2]);
  return html`<header>
      <a class="home" href="#/"><img src="icon.svg" alt="" width="20" height="20" /> Gangline</a>
      <nav>${PAGES.map(([page, title]) => html`<a href=${`#/${page}`} aria-current=${page === at.page ? "page" : null}>${title}</a>`)}</nav>
      <span class="who"><span class=${isLive ? "live" : "late"} title=${isLive ? "events arrive as they happen" : "no events arrive; what you see may be old"}>${isLive ? "live" : "reconnecting"}</span>
      ${" "}${who.user} (${who.role}) <button class="plain" onClick=${() => leave()}>leave</button></span>
    </header>
    <main>${Page
      ? html`<${Page} key=${`${at.page}/${at.id}`} id=${at.id} query=${at.query} who=${who} />`
      : html`<p class="trouble">There is no page "${at.page}". <a href="#/">Overview</a></p>`}</main>`;
}

take_token();
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
