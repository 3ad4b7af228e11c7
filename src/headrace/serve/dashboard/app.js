// The page: golden numbers, the way of events, and a table of each kind, drawn anew with every word of /live.

import { draw } from "./chart.js";
import { Numbers, shown } from "./numbers.js";

const STALE_MS = 3_000;
const RANGES = { 15: "15 minutes", 60: "an hour", 360: "6 hours", 1440: "a day" };
const asked = new URLSearchParams(location.search);
const minutes = asked.get("minutes") in RANGES ? Number(asked.get("minutes")) : 15;
const numbers = new Numbers(minutes);
const at = (id) => document.getElementById(id);

/** An element with attributes and children; text is always text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Golden numbers.

const GOLDEN = [
  { id: "in", title: "Events in", unit: "a second", read: (i) => numbers.rate("headrace_events_total", { fate: "in" }, i) },
  { id: "out", title: "Clean events out", unit: "a second", read: (i) => numbers.rate("headrace_events_total", { fate: "clean" }, i) },
  { id: "lag", title: "Lag", unit: "records", read: (_, s) => numbers.total("headrace_lag", {}, s) },
  { id: "waits", title: "Oldest that waits", unit: "s", read: (_, s) => numbers.level("headrace_lag_seconds", {}, s) },
  { id: "fresh50", title: "Log to store, P50", unit: "s", read: (i) => numbers.quantile(0.5, "headrace_apply_seconds", {}, i) },
  { id: "fresh99", title: "Log to store, P99", unit: "s", promised: "freshness", read: (i) => numbers.quantile(0.99, "headrace_apply_seconds", {}, i) },
  { id: "score99", title: "Arrival to score, P99", unit: "s", promised: "budget", read: (i) => numbers.quantile(0.99, "headrace_score_seconds", {}, i) },
  { id: "checkpoint", title: "Last checkpoint", unit: "ms", read: (_, s) => numbers.level("headrace_checkpoint_ms", {}, s) },
  { id: "state", title: "State", unit: "B", read: (_, s) => numbers.total("headrace_state_bytes", {}, s) },
  { id: "watermark", title: "Watermark behind", unit: "s", read: (_, s) => behind(s, {}) },
  { id: "dead", title: "Dead letters", unit: "", read: (_, s) => numbers.total("headrace_events_total", { fate: "dead" }, s) },
  { id: "wrong", title: "Wrong values served", unit: "", read: (_, s) => numbers.total("headrace_checked_values_total", { outcome: "wrong" }, s) },
  { id: "firing", title: "Alerts firing", unit: "", read: (_, s) => numbers.level("headrace_alerts_firing", {}, s) },
];

function behind(snapshot, wanted) {
  const watermark = numbers.level("headrace_watermark_seconds", wanted, snapshot);
  return watermark ? Math.max(0, snapshot.at / 1000 - watermark) : null;
}

function promisedOf(app, kind) {
  const millis = kind === "freshness" ? app.views.map((view) => view.freshness_ms) : app.models.map((model) => model.budget_ms);
  const known = millis.filter((one) => one !== null);
  return known.length ? Math.min(...known) / 1000 : null;
}

function makeGolden(app) {
  at("golden").replaceChildren(
    ...GOLDEN.map((one) => {
      one.limit = one.promised ? promisedOf(app, one.promised) : null;
      one.value = element("output", { id: `golden-${one.id}` }, "–");
      one.canvas = element("canvas", { "aria-hidden": "true" });
      const promise = one.limit === null ? [] : [element("small", {}, `promised: ${shown(one.limit, "s")}`)];
      return element("article", {}, element("h3", {}, one.title), one.value, ...promise, one.canvas);
    }),
  );
}

function drawGolden() {
  for (const one of GOLDEN) {
    const points = numbers.over(one.read);
    const value = points.at(-1)[1];
    one.value.textContent = shown(value, one.unit);
    one.value.dataset.value = value ?? "";
    one.value.dataset.health = one.limit !== null && value !== null && value > one.limit ? "bad" : "ok";
    draw(one.canvas, points, one.limit);
  }
}

// The way: streams, views and models, each coloured by how it is.

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, GAP, ROW] = [190, 34, 90, 52];

function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function placesOf(app) {
  const places = new Map();
  [app.streams, app.views, app.models].forEach((column, x) =>
    column.forEach((one, y) => places.set(`${["stream", "view", "model"][x]} ${one.name}`, { x: x * (WIDTH + GAP), y: y * ROW, one })),
  );
  return places;
}

function edgesOf(app) {
  const edges = app.views.flatMap((view) => view.streams.map((stream) => [`stream ${stream}`, `view ${view.name}`]));
  for (const model of app.models) {
    edges.push(...(model.views.length ? model.views.map((view) => [`view ${view}`, `model ${model.name}`]) : [[`stream ${model.stream}`, `model ${model.name}`]]));
  }
  return edges;
}

function makeGraph(app) {
  const places = placesOf(app);
  const rows = Math.max(app.streams.length, app.views.length, app.models.length, 1);
  const columns = app.models.length ? 3 : 2;
  const drawing = svg("svg", { viewBox: `-2 -2 ${columns * (WIDTH + GAP) - GAP + 4} ${rows * ROW}`, role: "img", "aria-label": "Streams, views and models" });
  for (const [from, to] of edgesOf(app)) {
    const [one, other] = [places.get(from), places.get(to)];
    if (!one || !other) continue;
    const [x1, y1, x2, y2] = [one.x + WIDTH, one.y + HEIGHT / 2, other.x, other.y + HEIGHT / 2];
    drawing.append(svg("path", { d: `M${x1} ${y1} C${x1 + GAP / 2} ${y1} ${x2 - GAP / 2} ${y2} ${x2} ${y2}` }));
  }
  for (const [key, { x, y, one }] of places) {
    const words = svg("title", {}, key);
    const label = svg("text", { x: x + 12, y: y + 22 }, one.name.length > 22 ? `${one.name.slice(0, 21)}…` : one.name);
    drawing.append(svg("g", { "data-node": key, "data-health": "unknown" }, words, svg("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 6 }), label));
  }
  at("graph").replaceChildren(drawing);
}

/** The queries that a stream or a view needs; the tiles of a stream are numbered anew when a view changes. */
function queriesOf(kind, name, app) {
  if (kind === "stream") return [`${name}.gate`];
  const streams = kind === "view" ? app.views.find((view) => view.name === name).streams : [];
  const all = numbers.labels("headrace_query_running", "query");
  return streams.flatMap((stream) => all.filter((query) => query.startsWith(`${stream}.tiles`)));
}

function healthOf(key, app) {
  const [kind, name] = [key.slice(0, key.indexOf(" ")), key.slice(key.indexOf(" ") + 1)];
  const still = queriesOf(kind, name, app).filter((query) => numbers.level("headrace_query_running", { query }) === 0);
  if (still.length) return ["bad", `${still[0]} does not run`];
  if (kind === "stream") {
    const lag = numbers.total("headrace_lag", { stream: name }) ?? 0;
    const rate = numbers.rate("headrace_events_total", { stream: name, fate: "in" }) ?? 0;
    return lag > Math.max(100, 5 * rate) ? ["warn", `${lag} records wait`] : ["ok", "up to date"];
  }
  if (kind === "view") {
    const wrong = numbers.total("headrace_checked_values_total", { view: name, outcome: "wrong" }) ?? 0;
    return wrong ? ["bad", `${wrong} wrong values served`] : ["ok", "right and fresh"];
  }
  const drift = numbers.level("headrace_drift", { model: name });
  return drift !== null && drift > 1 ? ["warn", "what it is asked has drifted"] : ["ok", "scoring"];
}

function drawGraph(app) {
  for (const node of at("graph").querySelectorAll("[data-node]")) {
    const [health, words] = healthOf(node.dataset.node, app);
    node.dataset.health = health;
    node.querySelector("title").textContent = `${node.dataset.node}: ${words}`;
  }
}

// Tables.

const TABLES = {
  streams: {
    names: (app) => app.streams.map((one) => one.name),
    columns: [
      ["in", "a second", (name) => numbers.rate("headrace_events_total", { stream: name, fate: "in" })],
      ["arrived", "", (name) => numbers.total("headrace_events_total", { stream: name, fate: "in" })],
      ["clean", "", (name) => numbers.total("headrace_events_total", { stream: name, fate: "clean" })],
      ["late", "", (name) => numbers.total("headrace_events_total", { stream: name, fate: "late" })],
      ["dropped", "", (name) => numbers.total("headrace_events_total", { stream: name, fate: "dropped" })],
      ["dead", "", (name) => numbers.total("headrace_events_total", { stream: name, fate: "dead" })],
      ["repeated", "", (name) => numbers.total("headrace_duplicates_total", { stream: name })],
      ["lag", "records", (name) => numbers.total("headrace_lag", { stream: name })],
    ],
  },
  views: {
    names: (app) => app.views.map((one) => one.name),
    columns: [
      ["P50", "s", (name) => numbers.quantile(0.5, "headrace_apply_seconds", { view: name })],
      ["P99", "s", (name) => numbers.quantile(0.99, "headrace_apply_seconds", { view: name })],
      ["entities", "", (name) => numbers.level("headrace_entities", { view: name })],
      ["tiles", "", (name) => numbers.level("headrace_tiles", { view: name })],
      ["store", "B", (name) => numbers.level("headrace_store_bytes", { view: name })],
      ["checked right", "", (name) => checked(name, ["exact", "rounded"])],
      ["wrong", "", (name) => checked(name, ["wrong"])],
    ],
  },
  models: {
    names: (app) => app.models.map((one) => one.name),
    columns: [
      ["scored", "a second", (name) => numbers.rate("headrace_predictions_total", { model: name, role: "champion" })],
      ["P50", "s", (name) => numbers.quantile(0.5, "headrace_score_seconds", { model: name })],
      ["P99", "s", (name) => numbers.quantile(0.99, "headrace_score_seconds", { model: name })],
      ["degraded", "", (name) => numbers.total("headrace_degraded_total", { model: name })],
      ["over HTTP", "", (name) => numbers.total("headrace_http_predictions_total", { model: name })],
      ["lag", "events", (name) => numbers.level("headrace_score_lag", { model: name })],
      ["labels came", "share", (name) => numbers.level("headrace_label_coverage", { model: name })],
      ["drift", "× critical", (name) => numbers.level("headrace_drift", { model: name })],
    ],
  },
  queries: {
    names: () => numbers.labels("headrace_query_running", "query"),
    columns: [
      ["runs", "", (query) => numbers.level("headrace_query_running", { query })],
      ["state", "B", (query) => numbers.level("headrace_state_bytes", { query })],
      ["rows", "", (query) => numbers.level("headrace_state_rows", { query })],
      ["last checkpoint", "ms", (query) => numbers.level("headrace_checkpoint_ms", { query })],
      ["watermark behind", "s", (query) => behind(numbers.latest, { query })],
    ],
  },
};

function checked(view, outcomes) {
  const found = outcomes.map((outcome) => numbers.total("headrace_checked_values_total", { view, outcome })).filter((one) => one !== null);
  return found.length ? found.reduce((sum, one) => sum + one, 0) : null;
}

function drawTable(id, app) {
  const { names, columns } = TABLES[id];
  const rows = names(app).map((name) =>
    element("tr", { "data-row": name }, element("th", { scope: "row" }, name), ...columns.map(([column, unit, read]) => cell(column, read(name), unit))),
  );
  const head = element("tr", {}, element("th", { scope: "col" }, ""), ...columns.map(([column]) => element("th", { scope: "col" }, column)));
  const table = rows.length ? element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)) : element("p", {}, "There are none.");
  at(id).replaceChildren(table);
}

function cell(column, value, unit) {
  return element("td", { "data-column": column, "data-value": value ?? "" }, shown(value, unit));
}

// News, and how old they are.

function tell(state, words) {
  document.body.dataset.state = state;
  if (at("state").textContent !== words) at("state").textContent = words;
}

function age() {
  const latest = numbers.latest;
  if (!latest) return;
  const old = Date.now() - latest.at;
  if (old > STALE_MS) tell("stale", `stale: no news for ${Math.round(old / 1000)} s`);
  else tell("live", "live");
}

/** The URL is all the page remembers. */
function remember(name, value) {
  asked.set(name, value);
  history.replaceState(null, "", `?${asked}`);
}

function theme() {
  if (asked.has("theme")) document.documentElement.dataset.theme = asked.get("theme");
  at("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
    remember("theme", document.documentElement.dataset.theme);
  });
}

function range() {
  at("range").append(...Object.entries(RANGES).map(([value, words]) => element("option", { value }, words)));
  at("range").value = String(minutes);
  at("range").addEventListener("change", () => {
    remember("minutes", at("range").value);
    location.reload();
  });
}

async function start() {
  theme();
  range();
  const [app, past] = await Promise.all(["/dashboard/app.json", `/history?minutes=${minutes}`].map(async (path) => (await fetch(path)).json()));
  past.forEach((told) => numbers.take(told));
  makeGolden(app);
  makeGraph(app);
  const news = new EventSource("/live");
  news.onmessage = ({ data }) => {
    numbers.take(JSON.parse(data));
    drawGolden();
    drawGraph(app);
    Object.keys(TABLES).forEach((id) => drawTable(id, app));
    age();
  };
  setInterval(age, 500);
}

start().catch((problem) => tell("error", `the page failed: ${problem.message}`));
