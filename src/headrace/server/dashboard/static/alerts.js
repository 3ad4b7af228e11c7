// Alerts: what fires, since when, why, what to run; and keeping one quiet for a while.

import { ask, at, button, element, fill, table } from "./dom.js";

const ORDER = ["firing", "pending", "resolved", "ok"];
let known = null;

export function live(_app, numbers) {
  const firing = numbers.level("headrace_alerts_firing");
  if (firing !== known && at("alerts").dataset.panel !== "loading") {
    known = firing;
    look();
  }
}

function look() {
  return fill(at("alerts"), async () => {
    const rows = await ask("/ask/alerts", {});
    const place = ({ status }) => (ORDER.includes(status) ? ORDER.indexOf(status) : ORDER.length);
    return table(["alert", "severity", "state", "since", "on", "which says", "run", ""], rows.sort((one, other) => place(one) - place(other)).map(cells), "No alert is declared.");
  });
}

function cells({ name, severity, status, since, on, said, run, silenced_until: until }) {
  const health = status === "firing" ? "bad" : status === "pending" ? "warn" : "ok";
  const hush = until ? button("unsilence", () => silence({ name })) : button("silence for 2 h", () => silence({ name, for: "2h" }));
  return [name, severity, element("td", { "data-health": health }, until ? `${status}, silenced until ${until}` : status), since ?? "", on, said ?? "", run ?? "", hush];
}

async function silence(asked) {
  try {
    await ask("/ask/silence", asked);
  } catch (problem) {
    at("alerts").prepend(element("strong", {}, problem.message));
    return;
  }
  await look();
}
