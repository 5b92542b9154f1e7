// The HTTP API as the pages use it: the token, calls with readable errors, and the one stream of events.

const KEY = "gangline.token";

export const token = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (text) => sessionStorage.setItem(KEY, text.trim()),
  forget: () => sessionStorage.removeItem(KEY),
  /** What to do when the gateway knows the token no more: it has expired, or was revoked. */
  refused: () => {},
};

/** An answer that is not good: the problem's own words. */
export class ApiError extends Error {
  constructor(status, problem) {
    const fields = (problem.errors || []).map((one) => `${one.path}: ${one.message}`);
    super([problem.detail || problem.title || `HTTP ${status}`, ...fields.slice(1)].join("\n"));
    this.status = status;
    this.problem = problem;
  }
}

function address(path, query) {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query || {})) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/** `fetch`, whose own words for a gateway that is away mean nothing to people. */
async function reach(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The gateway does not answer now. What stands here is what it said last.");
  }
}

async function ask(method, path, { query, body, signal, headers } = {}) {
  const shown = token.get();
  const response = await reach(address(path, query), {
    method,
    signal,
    headers: {
      Authorization: `Bearer ${shown}`,
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!response.ok) {
    const problem = await response.json().catch((error) => {
      if (error.name === "AbortError") throw error;
      return { title: response.statusText };
    });
    const error = new ApiError(response.status, problem);
    // Of several calls with one token the first says why; the page has forgotten it by then.
    if (response.status === 401 && token.get() === shown) token.refused(error);
    throw error;
  }
  return response;
}

/** One call; the answer's JSON. */
export async function call(method, path, options) {
  const response = await ask(method, path, options);
  return response.json();
}

/** All pages of a list, at most `most` entries; says whether there are more. */
export async function pages(path, name, { query, signal, most }) {
  const found = [];
  let cursor = "";
  do {
    const page = await call("GET", path, { query: { ...query, cursor }, signal });
    found.push(...(page[name] || []));
    cursor = page.next || "";
  } while (cursor && found.length < most);
  return { found, more: Boolean(cursor) };
}

/** Text of a body as it arrives. */
export async function* textOf(path, { query, signal }) {
  const response = await ask("GET", path, { query, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    yield value;
  }
}

const QUIET_MS = 60_000;
const AGAIN_MS = 2_000;

/** The events of the platform, sent to whoever listens; taken up again after a broken connection. */
class Feed {
  constructor() {
    this.listeners = new Set();
    this.last = "";
    this.isOpen = false;
    this.stopped = null;
  }

  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  start() {
    this.stop();
    this.stopped = new AbortController();
    this.run(this.stopped.signal);
  }

  stop() {
    if (this.stopped) this.stopped.abort();
    this.stopped = null;
    this.isOpen = false;
  }

  async run(signal) {
    while (!signal.aborted) {
      try {
        await this.read(signal);
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) return;
      }
      this.isOpen = false;
      this.tell(null);
      if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  /** Read one connection to its end. A connection on which nothing comes for long, not even a sign of life, is dead. */
  async read(signal) {
    const own = new AbortController();
    const give_up = () => own.abort();
    signal.addEventListener("abort", give_up);
    let timer = setTimeout(give_up, QUIET_MS);
    try {
      const headers = this.last ? { "Last-Event-ID": this.last } : {};
      const response = await ask("GET", "/v1/events", { signal: own.signal, headers });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      this.isOpen = true;
      this.tell(null);
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(give_up, QUIET_MS);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        blocks.forEach((block) => this.take(block));
      }
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", give_up);
    }
  }

  take(block) {
    const data = block.split("\n").find((line) => line.startsWith("data: "));
    if (!data) return;
    const event = JSON.parse(data.slice(6));
    this.last = event.id;
    this.tell(event);
  }

  tell(event) {
    for (const listener of [...this.listeners]) listener(event);
  }
}

export const feed = new Feed();
