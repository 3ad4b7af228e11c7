// The page: the view that the URL selects, redrawn at every message of /live.

import * as alerts from "./alerts.js";
import { ask, at, element } from "./dom.js";
import { drawDown } from "./down.js";
import * as features from "./features.js";
import * as models from "./models.js";
import { Numbers } from "./numbers.js";
import * as overview from "./overview.js";
import { followPanels } from "./panels.js";
import * as streams from "./streams.js";
import * as trace from "./trace.js";

const PAGES = { overview, streams, features, models, alerts, trace };
const STALE_MS = 3_000;
const RANGES = { 15: "15 minutes", 60: "an hour", 360: "6 hours", 1440: "a day" };

/** The URL is all the page remembers. */
const state = {
  asked: new URLSearchParams(location.search),
  get page() {
    const wanted = this.asked.get("page");
    return Object.hasOwn(PAGES, wanted ?? "") ? wanted : "overview";
  },
  remember(news) {
    Object.entries(news).forEach(([name, value]) => this.asked.set(name, value));
    history.replaceState(null, "", `?${this.asked}`);
  },
};
const minutes = Object.hasOwn(RANGES, state.asked.get("minutes") ?? "") ? Number(state.asked.get("minutes")) : 15;
const numbers = new Numbers(minutes);

// News, and how old they are.

function tell(how, text) {
  document.body.dataset.state = how;
  if (at("state").textContent !== text) at("state").textContent = text;
}

function age() {
  if (!numbers.latest) return;
  const old = Date.now() - numbers.latest.at;
  if (old > STALE_MS) tell("stale", `stale: no news for ${Math.round(old / 1000)} s`);
  else tell("live", "live");
}

function theme() {
  if (state.asked.has("theme")) document.documentElement.dataset.theme = state.asked.get("theme");
  at("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
    state.remember({ theme: document.documentElement.dataset.theme });
  });
}

/** Who came in with a token may go: the session ends on the server, and the page asks for a token again. */
async function logout() {
  const { session } = await ask("/session").catch(() => ({ session: false }));
  at("logout").hidden = !session;
  at("logout").addEventListener("click", async () => {
    try {
      await ask("/logout", {});
      location.assign("/");
    } catch (problem) {
      tell("stale", `not logged out: ${problem.message}`);
    }
  });
}

function range() {
  at("range").append(...Object.entries(RANGES).map(([value, text]) => element("option", { value }, text)));
  at("range").value = String(minutes);
  at("range").addEventListener("change", () => {
    state.remember({ minutes: at("range").value });
    location.reload();
  });
}

/** Show the page that is asked for; links keep the rest of the URL, and the way back works. */
function turn() {
  document.body.dataset.page = state.page;
  for (const part of document.querySelectorAll("[data-of]")) part.hidden = part.dataset.of !== state.page;
  for (const link of at("pages").children) {
    const isHere = new URLSearchParams(link.search).get("page") === state.page;
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function follow(app) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    const href = link?.getAttribute("href") ?? "";
    if (!href.startsWith("?page=") || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    state.asked.set("page", href.slice("?page=".length));
    history.pushState(null, "", `?${state.asked}`);
    show(app);
  });
  addEventListener("popstate", () => {
    state.asked = new URLSearchParams(location.search);
    show(app);
  });
}

function show(app) {
  turn();
  if (numbers.latest) PAGES[state.page].live?.(app, numbers);
}

async function start() {
  theme();
  range();
  logout();
  turn();
  const [app, past] = await Promise.all(["/dashboard/app.json", `/history?minutes=${minutes}`].map(async (path) => (await fetch(path)).json()));
  past.forEach((told) => numbers.take(told));
  Object.values(PAGES).forEach((page) => page.make?.(app, state));
  follow(app);
  const news = new EventSource("/live");
  news.onmessage = ({ data }) => {
    numbers.take(JSON.parse(data));
    drawDown(numbers);
    show(app);
    age();
  };
  setInterval(age, 500);
  await followPanels(news);
}

start().catch((problem) => tell("error", `the page failed: ${problem.message}`));
