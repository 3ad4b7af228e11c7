// What is down: since when, why, and what does not work meanwhile; on every page, and gone once all runs.

import { at, element, table } from "./dom.js";

let known = "";

export function drawDown(numbers) {
  const down = numbers.latest?.down ?? [];
  const told = JSON.stringify(down);
  if (told === known) return;
  known = told;
  at("down").hidden = !down.length;
  const rows = down.map(({ what, since, why, affects }) => [what, since ?? "", why, affects]);
  at("down").replaceChildren(element("h2", {}, "Down"), table(["what", "since", "why", "affected"], rows));
}
