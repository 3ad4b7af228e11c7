// Features: how fresh views are, how their delays are spread, and the values of one entity while one looks.

import { draw } from "./chart.js";
import { ask, at, button, element, fill, table } from "./dom.js";
import { shown } from "./numbers.js";
import { drawTable, spread } from "./tables.js";

const MOMENTS = 900;
const EVERY_MS = 2_000;

let watched = null;

function checked(numbers, view, outcomes) {
  const found = outcomes.map((outcome) => numbers.total("headrace_checked_values_total", { view, outcome })).filter((one) => one !== null);
  return found.length ? found.reduce((sum, one) => sum + one, 0) : null;
}

const COLUMNS = [
  ["P50", "s", (numbers, view) => numbers.quantile(0.5, "headrace_apply_seconds", { view })],
  ["P99", "s", (numbers, view) => numbers.quantile(0.99, "headrace_apply_seconds", { view })],
  ["entities", "", (numbers, view) => numbers.level("headrace_entities", { view })],
  ["tiles", "", (numbers, view) => numbers.level("headrace_tiles", { view })],
  ["store", "B", (numbers, view) => numbers.level("headrace_store_bytes", { view })],
  ["checked right", "", (numbers, view) => checked(numbers, view, ["exact", "rounded"])],
  ["wrong", "", (numbers, view) => checked(numbers, view, ["wrong"])],
];

export function make(app, state) {
  const view = element("select", { name: "view", "aria-label": "view" }, ...app.views.map((one) => element("option", { value: one.name }, `${one.name} by ${one.by.join(", ")}`)));
  const key = element("input", { name: "key", placeholder: "key, or a JSON list of several", "aria-label": "key", autocomplete: "off" });
  at("entity").append(view, " ", key, " ", button("look", () => at("entity").requestSubmit()));
  at("entity").addEventListener("submit", (event) => {
    event.preventDefault();
    state.remember({ view: view.value, key: key.value });
    show(view.value, key.value);
  });
  if (state.asked.get("view")) view.value = state.asked.get("view");
  key.value = state.asked.get("key") ?? "";
  if (key.value && state.page === "features") show(view.value, key.value);
}

export function live(app, numbers) {
  drawTable("views", app.views.map((one) => one.name), COLUMNS, numbers);
  at("freshness").replaceChildren(...app.views.map((one) => spread(one.name, numbers.within("headrace_apply_seconds", { view: one.name }), one.freshness_ms === null ? null : one.freshness_ms / 1000)));
  if (watched && Date.now() - watched.at >= EVERY_MS) look();
}

function keyOf(text) {
  try {
    const found = JSON.parse(text);
    return Array.isArray(found) ? found : text;
  } catch {
    return text;
  }
}

/** Every feature of an entity now, and since one looks: the server keeps what windows need, not what values were. */
function show(view, key) {
  watched = { view, key: keyOf(key), told: [], at: 0 };
  at("values").replaceChildren();
  return look();
}

function look() {
  const { view, key, told } = watched;
  watched.at = Date.now();
  return fill(at("values"), async () => {
    const { rows } = await ask(`/features/${encodeURIComponent(view)}`, { keys: [key] });
    told.push([Date.now(), rows[0].values]);
    if (told.length > MOMENTS) told.shift();
    const canvas = (name) => element("canvas", { "data-feature": name, "aria-hidden": "true" });
    const made = table(["feature", "now", "since you look"], Object.entries(rows[0].values).map(([name, value]) => [name, textOf(value), canvas(name)]));
    requestAnimationFrame(() => made.querySelectorAll("canvas").forEach((one) => draw(one, told.map(([moment, values]) => [moment, numberOf(values[one.dataset.feature])]), null)));
    return made;
  });
}

const numberOf = (value) => (typeof value === "number" ? value : null);
const textOf = (value) => (typeof value === "number" ? shown(value, "") : value === null ? "–" : typeof value === "string" ? value : JSON.stringify(value));
