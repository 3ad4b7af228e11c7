// What pages are made of: elements whose text is always text, tables, and panels that say how they are.

export const at = (id) => document.getElementById(id);

/** An element with attributes and children; a listener is an attribute that is a function. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export const words = (text) => element("p", {}, text);

export function button(text, does, attributes = {}) {
  return element("button", { type: "button", click: does, ...attributes }, text);
}

/** A table of rows, each an array of cells that are texts or elements; what is empty says so. */
export function table(heads, rows, none = "There are none.") {
  if (!rows.length) return words(none);
  const cells = (row) => row.map((cell, place) => (cell instanceof HTMLTableCellElement ? cell : element(place ? "td" : "th", place ? {} : { scope: "row" }, cell)));
  const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows.map((row) => element("tr", { "data-row": row[0]?.textContent ?? row[0] }, ...cells(row)))));
}

/** Ask the server; its refusals are its own sentences. */
export async function ask(path, body) {
  const told = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, told);
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.error ?? `${path} answers ${answer.status}`);
  return said;
}

/** Fill a panel with what comes of asking: it says that it is loading, and what went wrong. */
export async function fill(panel, make) {
  panel.dataset.panel = "loading";
  if (!panel.childElementCount) panel.replaceChildren(words("looking it up …"));
  try {
    panel.replaceChildren(...[await make()].flat());
    panel.dataset.panel = "there";
  } catch (problem) {
    panel.replaceChildren(words(problem.message));
    panel.dataset.panel = "error";
  }
}
