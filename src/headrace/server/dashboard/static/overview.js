// Overview: the golden numbers with what was promised, the way of events, and the queries.

import { draw } from "./chart.js";
import { at, element } from "./dom.js";
import { shown } from "./numbers.js";
import { drawTable } from "./tables.js";

export function behind(numbers, snapshot, wanted) {
  const watermark = numbers.level("headrace_watermark_seconds", wanted, snapshot);
  return watermark ? Math.max(0, snapshot.at / 1000 - watermark) : null;
}

const GOLDEN = [
  { id: "in", title: "Events in", unit: "a second", read: (numbers, i) => numbers.rate("headrace_events_total", { fate: "in" }, i) },
  { id: "out", title: "Clean events out", unit: "a second", read: (numbers, i) => numbers.rate("headrace_events_total", { fate: "clean" }, i) },
  { id: "lag", title: "Lag", unit: "records", read: (numbers, _, s) => numbers.total("headrace_lag", {}, s) },
  { id: "waits", title: "Oldest that waits", unit: "s", read: (numbers, _, s) => numbers.level("headrace_lag_seconds", {}, s) },
  { id: "catchup", title: "Caught up in", unit: "s left", read: (numbers, _, s) => numbers.level("headrace_catch_up_seconds", {}, s) },
  { id: "fresh50", title: "Log to store, P50", unit: "s", read: (numbers, i) => numbers.quantile(0.5, "headrace_apply_seconds", {}, i) },
  { id: "fresh99", title: "Log to store, P99", unit: "s", promised: "freshness", read: (numbers, i) => numbers.quantile(0.99, "headrace_apply_seconds", {}, i) },
  { id: "score99", title: "Arrival to score, P99", unit: "s", promised: "budget", read: (numbers, i) => numbers.quantile(0.99, "headrace_score_seconds", {}, i) },
  { id: "checkpoint", title: "Last checkpoint", unit: "s", read: (numbers, _, s) => numbers.level("headrace_checkpoint_seconds", {}, s) },
  { id: "state", title: "State", unit: "B", read: (numbers, _, s) => numbers.total("headrace_state_bytes", {}, s) },
  { id: "watermark", title: "Watermark behind", unit: "s", read: (numbers, _, s) => behind(numbers, s, {}) },
  { id: "dead", title: "Dead letters", unit: "", read: (numbers, _, s) => numbers.total("headrace_events_total", { fate: "dead" }, s) },
  { id: "wrong", title: "Wrong values served", unit: "", read: (numbers, _, s) => numbers.total("headrace_checked_values_total", { outcome: "wrong" }, s) },
  { id: "firing", title: "Alerts firing", unit: "", read: (numbers, _, s) => numbers.level("headrace_alerts_firing", {}, s) },
];

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

function drawGolden(numbers) {
  for (const one of GOLDEN) {
    const points = numbers.over((index, snapshot) => one.read(numbers, index, snapshot));
    const value = points.at(-1)[1];
    one.value.textContent = shown(value, one.unit);
    one.value.dataset.value = value ?? "";
    one.value.dataset.health = one.limit !== null && value !== null && value > one.limit ? "bad" : "ok";
    draw(one.canvas, points, one.limit);
  }
}

// The way: streams, views and models, each coloured by how it is, and a link to its page.

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, GAP, ROW] = [190, 34, 90, 52];
const KINDS = ["stream", "view", "model"];
const PAGES = { stream: "streams", view: "features", model: "models" };

function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function placesOf(app) {
  const places = new Map();
  [app.streams, app.views, app.models].forEach((column, x) =>
    column.forEach((one, y) => places.set(`${KINDS[x]} ${one.name}`, { x: x * (WIDTH + GAP), y: y * ROW, kind: KINDS[x], one })),
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
  const drawing = svg("svg", { viewBox: `-2 -2 ${columns * (WIDTH + GAP) - GAP + 4} ${rows * ROW}`, role: "group", "aria-label": "Streams, views and models" });
  for (const [from, to] of edgesOf(app)) {
    const [one, other] = [places.get(from), places.get(to)];
    if (!one || !other) continue;
    const [x1, y1, x2, y2] = [one.x + WIDTH, one.y + HEIGHT / 2, other.x, other.y + HEIGHT / 2];
    drawing.append(svg("path", { d: `M${x1} ${y1} C${x1 + GAP / 2} ${y1} ${x2 - GAP / 2} ${y2} ${x2} ${y2}` }));
  }
  for (const [key, { x, y, kind, one }] of places) {
    const title = svg("title", {}, key);
    const label = svg("text", { x: x + 12, y: y + 22 }, one.name.length > 22 ? `${one.name.slice(0, 21)}…` : one.name);
    const node = svg("g", { "data-node": key, "data-health": "unknown" }, title, svg("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 6 }), label);
    drawing.append(svg("a", { href: `?page=${PAGES[kind]}` }, node));
  }
  at("graph").replaceChildren(drawing);
}

/** The queries that a stream or a view needs; the tiles of a stream get a new number when a view changes. */
function queriesOf(kind, name, app, numbers) {
  if (kind === "stream") return [`${name}.gate`];
  const streams = kind === "view" ? app.views.find((view) => view.name === name).streams : [];
  const all = numbers.labels("headrace_query_running", "query");
  return streams.flatMap((stream) => all.filter((query) => query.startsWith(`${stream}.tiles`)));
}

function healthOf(key, app, numbers) {
  const [kind, name] = [key.slice(0, key.indexOf(" ")), key.slice(key.indexOf(" ") + 1)];
  const still = queriesOf(kind, name, app, numbers).filter((query) => numbers.level("headrace_query_running", { query }) === 0);
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

function drawGraph(app, numbers) {
  for (const node of at("graph").querySelectorAll("[data-node]")) {
    const [health, why] = healthOf(node.dataset.node, app, numbers);
    node.dataset.health = health;
    node.querySelector("title").textContent = `${node.dataset.node}: ${why}`;
  }
}

const QUERIES = [
  ["runs", "", (numbers, query) => numbers.level("headrace_query_running", { query })],
  ["state", "B", (numbers, query) => numbers.level("headrace_state_bytes", { query })],
  ["rows", "", (numbers, query) => numbers.level("headrace_state_rows", { query })],
  ["last checkpoint", "s", (numbers, query) => numbers.level("headrace_checkpoint_seconds", { query })],
  ["watermark behind", "s", (numbers, query) => behind(numbers, numbers.latest, { query })],
  ["held by", "words", (numbers, query) => numbers.latest?.held[query]],
];

export function make(app) {
  makeGolden(app);
  makeGraph(app);
}

export function live(app, numbers) {
  drawGolden(numbers);
  drawGraph(app, numbers);
  drawTable("queries", numbers.labels("headrace_query_running", "query"), QUERIES, numbers);
}
