// Models: latency against the budget, drift by column, quality realised and estimated, versions and their cards.

import { ask, at, button, element, fill, table, words } from "./dom.js";
import { shown } from "./numbers.js";
import { drawTable, spread } from "./tables.js";

const WINDOWS = ["1h", "6h", "1d"];
const COLUMNS = [
  ["scored", "a second", (numbers, model) => numbers.rate("headrace_predictions_total", { model, role: "champion" })],
  ["P50", "s", (numbers, model) => numbers.quantile(0.5, "headrace_score_seconds", { model })],
  ["P99", "s", (numbers, model) => numbers.quantile(0.99, "headrace_score_seconds", { model })],
  ["degraded", "", (numbers, model) => numbers.total("headrace_degraded_total", { model })],
  ["over HTTP", "", (numbers, model) => numbers.total("headrace_http_predictions_total", { model })],
  ["lag", "events", (numbers, model) => numbers.level("headrace_score_lag", { model })],
  ["labels came", "share", (numbers, model) => numbers.level("headrace_label_coverage", { model })],
  ["quality lost", "share", (numbers, model) => numbers.level("headrace_quality_lost", { model })],
  ["drift", "× critical", (numbers, model) => numbers.level("headrace_drift", { model })],
];

let hasAsked = false;

export function live(app, numbers) {
  drawTable("models", app.models.map((one) => one.name), COLUMNS, numbers);
  at("budgets").replaceChildren(...app.models.map((one) => spread(one.name, numbers.within("headrace_score_seconds", { model: one.name }), one.budget_ms / 1000)));
  at("drift").replaceChildren(...app.models.map((one) => driftOf(one.name, numbers)));
  if (!hasAsked) {
    hasAsked = true;
    at("drifting").replaceChildren(...app.models.map((one) => button(`what drifted of ${one.name}?`, () => drifted(one.name))));
    fill(at("quality"), () => qualityOf(app));
    fill(at("versions"), versions);
  }
}

/** Columns by how far they are from what the champion was trained on, the farthest first; above 1 is drift. */
function driftOf(model, numbers) {
  const columns = numbers.all("headrace_drift_column", { model }).sort(([, one], [, other]) => other - one);
  const rows = columns.map(([{ column }, multiple]) => [
    column,
    element("td", { "data-health": multiple > 1 ? "bad" : "ok" }, `${shown(multiple, "")} × critical`),
    numbers.all("headrace_drift_statistic", { model, column }).map(([{ test }, value]) => `${test} ${shown(value, "")}`).join(", "),
  ]);
  const served = numbers.level("headrace_drift_rows", { model });
  const said = served === null ? "no drift is looked for" : `${shown(served, "vectors")} in the window, critical values scaled to that`;
  return element("div", { "data-model": model }, element("h3", {}, `${model}: ${said}`), ...(rows.length ? [table(["column", "distance", "statistics of the whole window"], rows)] : []));
}

/** What drifted, the heaviest first, by segments and with texts never seen, as the command ranks it. */
function drifted(model) {
  return fill(at("drifted"), async () => {
    const { version, window, rows, ranked } = await ask("/ask/drift", { model });
    const number = (value) => (value === null ? "exact" : shown(value, ""));
    const pairs = (of) => Object.entries(of).map(([name, value]) => `${name}=${value}`).join(", ");
    const cells = (one) => [one.column, pairs(one.segment) || "all", one.tests.join(", "), `${number(one.multiple)} × critical`, number(one.effect), number(one.importance), pairs(one.new)];
    return [
      element("h3", {}, `${model} ${version}: ${shown(rows, "vectors")} in ${window}`),
      table(["column", "segment", "tests", "distance", "effect", "importance", "never seen"], ranked.map(cells), "Nothing drifted."),
    ];
  });
}

async function qualityOf(app) {
  const judged = app.models.filter((one) => one.labels !== null);
  if (!judged.length) return words("No model has labels.");
  const panels = [];
  for (const { name } of judged) {
    const found = [];
    for (const window of WINDOWS) found.push(await ask("/ask/quality", { model: name, window }));
    const plain = (metric) => metric.replace(/"[^"]*"/g, "").replace(/\(\)/g, "");
    const named = found.map((one) => Object.fromEntries(Object.entries(one).map(([metric, value]) => [plain(metric), value])));
    const rows = [...new Set(named.flatMap((one) => Object.keys(one)))].map((metric) => [metric, ...named.map((one) => shown(one[metric] ?? null, ""))]);
    panels.push(element("h3", {}, name), table(["metric", ...WINDOWS.map((one) => `the last ${one}`)], rows));
  }
  return panels;
}

async function versions() {
  const rows = await ask("/ask/models", {});
  return table(
    ["model", "version", "role", "made", "when it was trained", ""],
    rows.map(({ model, version, role, created_at: made, metrics }) => [
      model,
      version,
      role ?? "",
      made,
      Object.entries(metrics).map(([name, value]) => `${name} ${typeof value === "number" ? shown(value, "") : value}`).join(", "),
      made ? button("card", () => card(model, version)) : "",
    ]),
    "No model has a version yet: headrace train makes one.",
  );
}

function card(model, version) {
  return fill(at("card"), async () => {
    const { reference, ...said } = await ask("/ask/card", { model, version });
    return element("article", {}, element("h3", {}, `${model} ${version}`), element("pre", {}, JSON.stringify(said, null, 2)));
  });
}
