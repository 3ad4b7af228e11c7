// Streams: what became of events, heavy keys, how late events come, and dead letters by reason, one by one, mended and sent again, or put away.

import { ask, at, button, element, fill, table, words } from "./dom.js";
import { shown } from "./numbers.js";
import { drawTable } from "./tables.js";

const SHARES = ["p50", "p90", "p99", "p99_9", "greatest"];

const fate = (name) => (numbers, stream) => numbers.total("headrace_events_total", { stream, fate: name });
const COLUMNS = [
  ["in", "a second", (numbers, stream) => numbers.rate("headrace_events_total", { stream, fate: "in" })],
  ["arrived", "", fate("in")],
  ["clean", "", fate("clean")],
  ["late", "", fate("late")],
  ["dropped", "", fate("dropped")],
  ["dead", "", fate("dead")],
  ["repeated", "", (numbers, stream) => numbers.total("headrace_duplicates_total", { stream })],
  ["lag", "records", (numbers, stream) => numbers.total("headrace_lag", { stream })],
  ["oldest waits", "s", (numbers, stream) => numbers.level("headrace_lag_seconds", { stream })],
];

const HEAVY_MS = 10_000;
const RANKS = 3;

let known; // nothing has been looked up yet: that their number is not known is news too
let heavyAt = 0;

export function make(app) {
  at("measure").replaceChildren(...app.streams.flatMap(({ name }) => [button(`measure ${name}`, () => measure(name)), " "]));
}

/** What each choice of late= would lose, of what has landed in the lake; Spark counts it, which takes a while. */
function measure(stream) {
  return fill(at("lateness"), async () => {
    const found = await ask("/ask/lateness", { stream });
    const { by_hour: hours, lost } = found;
    const delays = (name, one) => [name, shown(one.events, ""), ...SHARES.map((share) => shown(one[`${share}_ms`], "ms"))];
    return [
      words(`${stream}: late= is ${found.late}; recommended is ${found.recommended}.`),
      table(["arrival − event time", "events", ...SHARES], [delays("all", found), ...Object.entries(hours).sort().map(([hour, one]) => delays(`${hour}:00`, one))]),
      table(["late=", "events lost"], lost.map((one) => [one.late, shown(one.events, "share")])),
    ];
  });
}

export function live(app, numbers) {
  drawTable("streams", app.streams.map((one) => one.name), COLUMNS, numbers);
  if (Date.now() - heavyAt >= HEAVY_MS) {
    heavyAt = Date.now();
    fill(at("heavy"), heavy);
  }
  const dead = numbers.total("headrace_events_total", { fate: "dead" });
  if (dead !== known && at("dead").dataset.panel !== "loading") {
    known = dead;
    look();
  }
}

/** The heaviest keys of the last minutes, which ones are too heavy for one task, and what to do. */
async function heavy() {
  const { keys, topics, advice } = await ask("/hot");
  const rows = keys.filter(({ rank }) => rank <= RANKS).map((one) => [
    one.view ?? one.streams[0],
    element("td", { "data-key": one.key }, one.key),
    element("td", { "data-health": one.is_hot ? "bad" : "ok" }, `${shown(one.at_least, "share")} to ${shown(one.at_most, "share")}`),
    shown(one.events_per_second, "a second"),
    one.partition === null ? "any" : `${one.partition} of ${one.partitions}`,
  ]);
  const uneven = topics.map((one) => [one.topic, `${shown(one.skew, "")} × the mean`, `partition ${one.busiest}`]);
  return [
    ...advice.map((text) => element("strong", {}, text)),
    table(["of", "key", "share", "events", "partition"], rows, "Too few events to tell."),
    ...(uneven.length ? [table(["topic", "busiest partition", "which"], uneven)] : []),
  ];
}

function look() {
  return fill(at("dead"), async () => {
    const rows = await ask("/ask/dead", {});
    const cells = ({ stream, reason, open, replayed, discarded, last, said }) => [stream, reason, `${open}`, `${replayed}`, `${discarded}`, last, said, button("show", () => show(stream, reason))];
    return table(["stream", "reason", "open", "replayed", "discarded", "last", "which says", ""], rows.map(cells), "No dead letters.");
  });
}

/** Letters that are open, or with `every` also those that were replayed or discarded. */
function show(stream, reason, every = false) {
  return fill(at("letters"), async () => {
    const letters = await ask("/ask/letters", { stream, reason, ...(every ? { every: true } : {}) });
    const places = letters.filter((one) => one.state === "open").map((one) => one.place);
    const both = places.length ? [does("replay them", "/ask/replay", stream, reason, places), " ", does("discard them", "/ask/discard", stream, reason, places), " "] : [];
    const other = button(every ? "only those that are open" : "also those dealt with", () => show(stream, reason, !every));
    return [element("p", {}, `${places.length} of ${stream}, ${reason}, are open: `, ...both, other), ...letters.map((one) => letterOf(one, stream, reason))];
  });
}

/** A button that asks for a change, asks once more where nothing brings it back, and looks again. */
function does(text, path, stream, reason, places, mended = () => ({})) {
  return button(text, async ({ target }) => {
    if (path.endsWith("discard") && !confirm(`Discard ${places.length} dead letters?`)) return;
    target.disabled = true;
    try {
      const done = await ask(path, { stream, places, ...mended() });
      at("letters").replaceChildren(words(Object.entries(done).map(([word, count]) => `${word}: ${count}`).join(", ")));
    } catch (problem) {
      target.disabled = false;
      target.after(element("strong", {}, ` ${problem.message}`));
      return;
    }
    await look();
  });
}

function letterOf(letter, stream, reason) {
  const bytes = bytesOf(letter.value);
  const value = element("textarea", { rows: 2, "aria-label": `the value of ${letter.place}` });
  value.value = new TextDecoder().decode(bytes);
  const changes = letter.state !== "open" ? [] : [
    does("replay as it is", "/ask/replay", stream, reason, [letter.place]),
    does("replay as mended", "/ask/replay", stream, reason, [letter.place], () => ({ place: letter.place, mended: value.value })),
    does("discard", "/ask/discard", stream, reason, [letter.place]),
  ];
  const buttons = [...changes, button("copy as test case", () => navigator.clipboard.writeText(testOf(letter, bytes)))];
  return element(
    "article",
    { "data-letter": letter.place },
    element("h3", {}, `${letter.place}, ${letter.state}, ${letter.arrived}, key ${textOf(letter.key)}`),
    words(letter.reason),
    headersOf(letter),
    value,
    element("details", {}, element("summary", {}, `${bytes.length} bytes`), element("pre", {}, hexOf(bytes))),
    element("p", {}, ...buttons.flatMap((one) => [one, " "])),
  );
}

/** What its producer gave beside the value: text, whatever it holds. */
function headersOf({ place, headers }) {
  if (headers === null) return words("The raw log has it no more: its headers are gone.");
  if (!headers.length) return words("no headers");
  return element("div", { "data-headers": place }, table(["header", "value"], headers.map(([name, value]) => [name, textOf(value)])));
}

function bytesOf(value) {
  if (value === null) return new Uint8Array();
  if (typeof value === "string") return new TextEncoder().encode(value);
  return Uint8Array.from(atob(value.base64), (char) => char.charCodeAt(0));
}

const textOf = (key) => (key === null ? "none" : typeof key === "string" ? key : `base64 ${key.base64}`);

function hexOf(bytes) {
  const lines = [];
  for (let start = 0; start < Math.min(bytes.length, 4096); start += 16) {
    const line = [...bytes.slice(start, start + 16)];
    const hex = line.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    lines.push(`${start.toString(16).padStart(6, "0")}  ${hex.padEnd(48)} ${line.map((one) => (one > 31 && one < 127 ? String.fromCharCode(one) : ".")).join("")}`);
  }
  return lines.join("\n");
}

/** A test in Python that reads the very bytes as the gate does. */
function testOf(letter, bytes) {
  const escaped = [...bytes].map((one) => `\\x${one.toString(16).padStart(2, "0")}`).join("");
  const name = letter.place.replace(/[^A-Za-z0-9]+/g, "_");
  return [
    "import pytest",
    "from headrace.tiles.events import Unreadable, read_event",
    "",
    `def test_${name}_is_refused():`,
    `    value = b"${escaped}"`,
    `    with pytest.raises(Unreadable):  # ${letter.reason.replace(/\s+/g, " ")}`,
    `        read_event(${letter.place.replace(/-\d+@\d+$/, "")}.schema, value)`,
    "",
  ].join("\n");
}
