// Panels: the saved queries of the app, each a table of its latest result, redrawn whenever /live reports one.

import { ask, at, element, table } from "./dom.js";

const panels = new Map();

/** A value as text: null is a dash, and what is not plain is JSON. */
function textOf(value) {
  if (value === null) return "–";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function told({ at: moment, answer, error }) {
  if (error) return error;
  const count = `${answer.rows.length} row${answer.rows.length === 1 ? "" : "s"}`;
  return `${answer.cut ? `the first ${count}` : count}, in ${answer.took_ms} ms at ${new Date(moment).toISOString().slice(11, 19)} UTC`;
}

function draw(panel) {
  if (!panels.has(panel.name)) {
    panels.set(panel.name, element("section", { "data-panel": panel.name }));
    at("panels").append(panels.get(panel.name));
  }
  const drawn = panels.get(panel.name);
  if (Number(drawn.dataset.at ?? 0) > panel.at) return; // news came before the first answer
  drawn.dataset.at = panel.at;
  const heads = panel.answer?.columns.map(({ name }) => name);
  const answer = panel.answer ? [element("div", {}, table(heads, panel.answer.rows.map((row) => row.map(textOf)), "No rows."))] : [];
  drawn.replaceChildren(element("h2", {}, panel.name), ...answer, element("small", {}, told(panel)));
}

/** Draw what there is, and from then on what the news tell. */
export async function followPanels(news) {
  news.addEventListener("panel", ({ data }) => draw(JSON.parse(data)));
  (await ask("/panels")).panels.forEach(draw);
}
