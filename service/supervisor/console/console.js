// Asks the admin port every two seconds, and shows what it says.

import { drawGraph, heldAs, kindOf } from "./graph.js";
import { bytes, count, duration, make, rate, share } from "./page.js";

const EVERY_MS = 2000, TOKEN = "upquery-token";
const byId = (id) => document.getElementById(id);

// What was seen last, and the box that was chosen (also as #node=7 or #view=name in the address).
let seen = { ready: {}, views: [], graph: [], stats: {} };
let before;
let chosen;

async function ask(path) {
  const token = sessionStorage.getItem(TOKEN);
  const response = await fetch(path, { headers: token ? { authorization: `Bearer ${token}` } : {} });
  if (response.status === 401 || response.status === 403) throw new Error("token");
  const body = await response.json();
  if (!response.ok && path !== "readyz") throw new Error(body.detail ?? `${path}: ${response.status}`);
  return body;
}

async function look() {
  try {
    const [ready, views, graph, stats] = await Promise.all(["readyz", "v1/catalog/views", "v1/graph", "v1/stats"].map(ask));
    before = { at: seen.at, hits: readsOf(seen.views) };
    seen = { ready, views: views.views, graph, stats, at: performance.now() };
    show();
  } catch (error) {
    const asksForToken = error.message === "token";
    byId("sign-in").hidden = !asksForToken;
    say(asksForToken ? "a token is needed" : `no answer: ${error.message}`, "bad");
  }
}

function readsOf(views) {
  return new Map(views.map((view) => [view.name, view.counters.hits + view.counters.misses]));
}

function readsPerSecond(view) {
  if (before?.at === undefined || !before.hits.has(view.name)) return undefined;
  return (view.counters.hits + view.counters.misses - before.hits.get(view.name)) / ((seen.at - before.at) / 1000);
}

function say(text, how) {
  byId("state").textContent = text;
  byId("state").className = `state ${how}`;
}

function show() {
  byId("shown").hidden = false;
  byId("sign-in").hidden = true;
  const { ready, views, graph, stats } = seen;
  const ill = Object.keys(ready.broken ?? {}).length;
  const warming = ready.warming_up;
  if (!ready.ready && warming) say(`starting: ${warming.filled} of ${warming.keys} hot keys are filled`, "warned");
  else if (!ready.ready || !ready.engine) say(ready.engine ? "starting" : "the engine is down; cached keys are answered", "bad");
  else if (!ready.streaming && ready.held_up) say(`the change stream cannot begin: ${ready.held_up}`, "bad");
  else if (!ready.streaming) say("the database's change stream is down; cached keys are answered, with rising age", "bad");
  else if (ill) say(`${ill} ${ill === 1 ? "view is" : "views are"} broken`, "warned");
  else say("all is well", "good");
  byId("version").textContent = ready.version ? `version ${ready.version}` : "";
  showTiles(ready, views, stats);
  showViews(views);
  chosen = choiceOf(graph);
  drawGraph(byId("graph"), graph, chosen, choose);
  showDetail(graph.find((node) => node.id === chosen));
  showErrors(stats.recent_errors ?? []);
}

function showTiles(ready, views, stats) {
  const sum = (name) => views.reduce((total, view) => total + view.counters[name], 0);
  const [hits, misses] = [sum("hits"), sum("misses")];
  const perSecond = views.map(readsPerSecond).reduce((total, each) => (each === undefined ? total : (total ?? 0) + each), undefined);
  const sizes = stats.sizes ?? {};
  const tile = (value, name, meaning, extra) =>
    make("div", { class: "tile", title: meaning }, make("b", {}, value), make("span", {}, name), extra);
  byId("tiles").replaceChildren(
    tile(ready.age_ms === undefined || ready.age_ms === null ? "–" : duration(ready.age_ms / 1000), "behind the database",
      "Age: upper bound of the lag of answers, measured by the newest heartbeat whose changes are all applied."),
    tile(share(hits, hits + misses), "hits", "Share of reads answered from memory since the start."),
    tile(rate(perSecond), "reads", "Reads of all views, over the last two seconds."),
    tile(bytes(sizes.used_bytes ?? 0), `of ${bytes(sizes.budget_bytes ?? 0)} used`,
      "The memory budget of engine state and leaf store.",
      make("meter", { min: "0", max: "1", high: "0.95", value: String((sizes.used_bytes ?? 0) / (sizes.budget_bytes || 1)) })),
    tile(count(views.reduce((total, view) => total + view.counters.covered_keys, 0)), "keys in memory",
      "Cached keys of all views."),
    tile(count(stats.counters?.lookups ?? 0), "lookups", "Statements run upstream to fill keys."),
    tile(count(stats.counters?.transactions ?? 0), "transactions applied", "Of the database's change stream, since the start."),
    tile(String(ready.workers ?? 0), ready.workers === 1 ? "worker" : "workers", "Processes that answer reads."));
}

const COLUMNS = [
  ["view", "", (view) => make("button", { class: "link", click: () => chooseView(view.name) }, view.name)],
  ["tier", "Tier: maintained incrementally; run again after a change that may affect it; or expiring.",
    (view) => view.tier === "incremental" ? `incremental, ${view.materialization}` : view.tier ?? "–"],
  ["status", "", (view) => make("span", { class: view.status === "broken" ? "broken" : "" }, view.replacing ? "being replaced" : view.status)],
  ["keys", "In memory.", (view) => count(view.counters.covered_keys)],
  ["memory", "Memory of rows in the leaf store, and of the engine's state for them (shared with other views).",
    (view) => bytes(view.counters.leaf_bytes + view.counters.inner_bytes)],
  ["reads", "Over the last two seconds.", (view) => rate(readsPerSecond(view))],
  ["hits", "Share of all reads since the start.", (view) => share(view.counters.hits, view.counters.hits + view.counters.misses)],
  ["a miss takes", "On average; at most.", (view) => view.counters.upqueries === 0 ? "–"
    : `${duration(view.counters.upquery_s / view.counters.upqueries)} (${duration(view.counters.upquery_max_s)})`],
  ["fallbacks", "Reads answered by fallback; reads that failed.",
    (view) => `${count(view.counters.forwarded)} forwarded, ${count(view.counters.failed)} failed`],
  ["why", "Reason why it is not ready, or not maintained incrementally.", (view) => view.reason ?? ""],
];
const NUMBERS = new Set(["keys", "memory", "reads", "hits", "a miss takes"]);

function showViews(views) {
  const classOf = (name) => NUMBERS.has(name) ? "number" : name === "why" ? "wide" : "";
  byId("columns").replaceChildren(...COLUMNS.map(([name, title]) => make("th", { title, class: classOf(name) }, name)));
  byId("views").replaceChildren(...views.map((view) => make("tr", { "data-view": view.name },
    ...COLUMNS.map(([name, , cell]) => make("td", { class: classOf(name) }, cell(view))))));
}

function choiceOf(graph) {
  const [kind, value] = decodeURIComponent(location.hash.slice(1)).split("=");
  if (kind === "node") return Number(value);
  if (kind === "view") return graph.find((node) => node.views?.includes(value))?.id;
  return undefined;
}

function choose(id) {
  location.hash = id === chosen ? "" : `node=${id}`;
}

function chooseView(name) {
  location.hash = `view=${encodeURIComponent(name)}`;
  byId("graph").scrollIntoView({ block: "nearest" });
}

function showDetail(node) {
  const detail = byId("detail");
  detail.hidden = node === undefined;
  if (node === undefined) return;
  const view = seen.views.find((each) => node.views?.includes(each.name));
  const held = heldAs(node);
  const { counters } = node;
  const facts = [
    ["number", String(node.id)],
    ["holds", held === "full" ? "all rows" : held === "partial" ? `rows by ${[...new Set(node.coverage)].join("; ")}` : "nothing itself"],
    ...held === "stateless" ? [] : [["keys", count(node.covered_keys)], ["memory", bytes(node.state_bytes)],
      ["filled, evicted", `${count(counters.filled)}, ${count(counters.evicted)}`],
      ["rows of changes", `${count(counters.rows_applied)} applied, ${count(counters.rows_dropped)} dropped`]],
    ...counters.lookups ? [["lookups", `${count(counters.lookups)}, ${duration(counters.lookup_s / counters.lookups)} each`]] : [],
  ];
  const pre = (text) => make("pre", {}, text);
  detail.replaceChildren(
    make("h3", {}, kindOf(node)),
    make("dl", {}, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    ...view ? [make("h3", {}, "SQL"), pre(view.sql)] : [],
    make("h3", {}, "What it is"), pre(node.relation),
    ...node.lookups.length ? [make("h3", {}, "Lookups"), ...node.lookups.map(pre)] : [],
    ...node.warnings.map((text) => make("p", { class: "warning" }, text)));
}

function showErrors(errors) {
  const rows = errors.map((error) => make("tr", {},
    make("td", {}, error.at), make("td", {}, error.process), make("td", { class: error.level === "error" ? "broken" : "warning" }, error.level),
    make("td", { class: "wide" }, error.text)));
  byId("errors").replaceChildren(...rows.length ? rows : [make("tr", {}, make("td", {}, "none"))]);
}

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, byId("token").value);
  byId("token").value = "";
  look();
});
window.addEventListener("hashchange", () => { if (seen.at !== undefined) show(); });
setInterval(() => { if (!document.hidden) look(); }, EVERY_MS);
look();
