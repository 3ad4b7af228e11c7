// Trace: one event's whole way, from its id.

import { ask, at, button, element, fill, table } from "./dom.js";

const SINCE = { "1h": "hour", "6h": "6 hours", "1d": "day", "7d": "week" };

export function make(_app, state) {
  const id = element("input", { name: "id", placeholder: "an event's id, or a place such as payments-0@42", size: 40, "aria-label": "id", autocomplete: "off" });
  const since = element("select", { name: "since", "aria-label": "of the last" }, ...Object.entries(SINCE).map(([value, text]) => element("option", { value }, `of the last ${text}`)));
  at("traced").append(id, " ", since, " ", button("trace", () => at("traced").requestSubmit()));
  at("traced").addEventListener("submit", (event) => {
    event.preventDefault();
    state.remember({ id: id.value, since: since.value });
    show(id.value, since.value);
  });
  id.value = state.asked.get("id") ?? "";
  if (state.asked.get("since") in SINCE) since.value = state.asked.get("since");
  if (id.value && state.page === "trace") show(id.value, since.value);
}

function show(id, since) {
  return fill(at("way"), async () => {
    const ways = await ask("/ask/trace", { id, since });
    return ways.flatMap((way) => [element("h3", {}, way[0].place), element("ol", { class: "way" }, ...way.map((step) => stepOf(step, way[0].at_us)))]);
  });
}

function stepOf({ what, place, at_us: us, said }, began) {
  const when = us === began ? new Date(us / 1000).toISOString() : `+${((us - began) / 1000).toFixed(1)} ms`;
  const rows = Object.entries(said).filter(([name]) => name !== "changed").map(([name, value]) => [name, element("code", {}, typeof value === "string" ? value : JSON.stringify(value))]);
  const changed = Object.entries(said.changed ?? {}).map(([name, [before, after]]) => [name, JSON.stringify(before ?? null), JSON.stringify(after)]);
  return element(
    "li",
    { "data-step": what },
    element("h4", {}, `${what} `, element("small", {}, `${when} · ${place}`)),
    table(["", ""], rows, ""),
    ...(changed.length ? [table(["of its tile", "before", "after"], changed)] : []),
  );
}
