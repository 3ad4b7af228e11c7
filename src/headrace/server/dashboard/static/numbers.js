// The numbers of /live over time: levels as they are, counts as what was added a second, delays as quantiles.

const AT_MOST = 900;
const RATE_MS = 10_000;

/** Whether a sample has all of these labels. */
const has = (labels, wanted) => Object.entries(wanted).every(([name, value]) => labels[name] === value);

export class Numbers {
  constructor(minutes) {
    this.keptMs = minutes * 60_000;
    this.snapshots = []; // {at, byName: Map(name -> [[labels, value], …])}, the newest last
  }

  /** Add a snapshot, drop expired ones; the newest is replaced until the minimum interval has passed. */
  take({ at, samples, held = {}, down = [] }) {
    const byName = new Map();
    for (const [name, labels, value] of samples) {
      if (!byName.has(name)) byName.set(name, []);
      byName.get(name).push([labels, value === "Infinity" ? Infinity : value]);
    }
    if (this.snapshots.length > 1 && at - this.snapshots.at(-2).at < this.keptMs / AT_MOST) this.snapshots.pop();
    this.snapshots.push({ at, byName, held, down });
    while (this.snapshots[0].at < at - this.keptMs) this.snapshots.shift();
  }

  get latest() {
    return this.snapshots.at(-1);
  }

  /** The values of one label that a number has now. */
  labels(name, label) {
    return [...new Set((this.latest?.byName.get(name) ?? []).map(([labels]) => labels[label]))].sort();
  }

  /** The highest of some levels, or null where there is none. */
  level(name, wanted = {}, snapshot = this.latest) {
    const found = (snapshot?.byName.get(name) ?? []).filter(([labels]) => has(labels, wanted));
    return found.length ? Math.max(...found.map(([, value]) => value)) : null;
  }

  /** Some counts together, or null where there is none. */
  total(name, wanted = {}, snapshot = this.latest) {
    const found = (snapshot?.byName.get(name) ?? []).filter(([labels]) => has(labels, wanted));
    return found.length ? found.reduce((sum, [, value]) => sum + value, 0) : null;
  }

  /** What was added to a count in a second, over the last ten before a snapshot. */
  rate(name, wanted = {}, index = this.snapshots.length - 1) {
    const now = this.snapshots[index];
    const before = this.#before(index);
    if (!before) return null;
    const [last, first] = [this.total(name, wanted, now), this.total(name, wanted, before)];
    // A counter that fell was reset by a restart of its process.
    return last === null ? null : Math.max(0, last - (first !== null && first <= last ? first : 0)) / ((now.at - before.at) / 1000);
  }

  /** Some samples as they are now: pairs of labels and a value. */
  all(name, wanted = {}) {
    return (this.latest?.byName.get(name) ?? []).filter(([labels]) => has(labels, wanted));
  }

  /** How many delays since the first snapshot were within each bound of a histogram. */
  within(name, wanted = {}) {
    return this.#grown(name, wanted, this.latest, this.snapshots[0]);
  }

  #grown(name, wanted, last, first) {
    const [now, then] = [last, first].map((one) => this.#buckets(name, wanted, one));
    return now.map(([bound, count], place) => [bound, Math.max(0, count - (then[place]?.[1] ?? 0))]);
  }

  /** A quantile of the delays of the last ten seconds before a snapshot, in seconds: the bound that it is under. */
  quantile(share, name, wanted = {}, index = this.snapshots.length - 1) {
    const before = this.#before(index);
    if (!before) return null;
    const grown = this.#grown(name, wanted, this.snapshots[index], before);
    const all = grown.at(-1)?.[1] ?? 0;
    return all ? grown.find(([, count]) => count >= share * all)[0] : null;
  }

  /** A number over time: pairs of a moment and a value, which may be null. */
  over(read) {
    return this.snapshots.map((snapshot, index) => [snapshot.at, read(index, snapshot)]);
  }

  #before(index) {
    const now = this.snapshots[index];
    for (let place = index - 1; place >= 0; place -= 1) {
      if (now.at - this.snapshots[place].at >= RATE_MS || place === 0) return this.snapshots[place];
    }
    return null;
  }

  #buckets(name, wanted, snapshot) {
    const sums = new Map();
    for (const [labels, value] of snapshot.byName.get(`${name}_bucket`) ?? []) {
      if (has(labels, wanted)) {
        const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
        sums.set(bound, (sums.get(bound) ?? 0) + value);
      }
    }
    return [...sums].sort(([one], [other]) => one - other);
  }
}

/** A number with its unit, in at most three digits. */
export function shown(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (unit === "s") return value === Infinity ? "> 60 s" : value < 1 ? `${digits(value * 1000)} ms` : `${digits(value)} s`;
  if (unit === "ms") return shown(value / 1000, "s");
  if (unit === "words") return value;
  if (unit === "s left") return value === Infinity ? "does not catch up" : shown(value, "s");
  if (unit === "share") return `${digits(value * 100)} %`;
  if (unit === "B") return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  return `${scaled(value, 1000, ["", "k", "M", "G"])}${unit ? ` ${unit}` : ""}`;
}

function scaled(value, step, names) {
  let power = 0;
  while (Math.abs(value) >= step && power < names.length - 1) {
    value /= step;
    power += 1;
  }
  return `${digits(value)}${names[power] ? ` ${names[power]}` : ""}`;
}

function digits(value) {
  const size = Math.abs(value);
  return size >= 100 || Number.isInteger(value) ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
}
