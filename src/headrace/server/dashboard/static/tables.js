// Tables of numbers, a row for each name; and how delays are spread, with what was promised.

import { at, element, table } from "./dom.js";
import { shown } from "./numbers.js";

export function drawTable(id, names, columns, numbers) {
  const rows = names.map((name) => [name, ...columns.map(([column, unit, read]) => cell(column, read(numbers, name), unit))]);
  at(id).replaceChildren(table(["", ...columns.map(([column]) => column)], rows));
}

function cell(column, value, unit) {
  return element("td", { "data-column": column, "data-value": value ?? "" }, shown(value, unit));
}

/** How the delays of a histogram are spread over its bounds: a bar each, coloured by whether the promise holds. */
export function spread(title, buckets, promised) {
  const counts = buckets.map(([bound, count], place) => [bound, count - (place ? buckets[place - 1][1] : 0)]);
  const used = counts.filter(([, count]) => count > 0);
  const all = used.reduce((sum, [, count]) => sum + count, 0);
  const bars = counts.slice(counts.indexOf(used[0]), counts.indexOf(used.at(-1)) + 1).map(([bound, count]) => bar(bound, count / all, promised));
  const kept = buckets.filter(([bound]) => promised === null || bound <= promised).at(-1)?.[1] ?? 0;
  const promise = promised === null ? "nothing is promised" : `${shown(all ? kept / all : null, "share")} within ${shown(promised, "s")}, as promised`;
  return element("figure", { "data-spread": title }, element("figcaption", {}, `${title}: ${all ? promise : "no news"}`), element("div", { class: "bars" }, ...(all ? bars : [])));
}

function bar(bound, share, promised) {
  const text = `${shown(bound, "s")} or less: ${shown(share, "share")}`;
  const made = element("div", { role: "img", "aria-label": text, title: text, "data-health": promised !== null && bound > promised ? "bad" : "ok" });
  made.style.setProperty("--share", share);
  return element("span", {}, made, element("small", {}, shown(bound, "s")));
}
