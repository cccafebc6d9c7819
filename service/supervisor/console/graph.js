// The dataflow graph as layers: a node stands to the right of all it reads. Within a layer, nodes stand near what they
// read and what reads them (the barycentre heuristic of Sugiyama, Tagawa and Toda, 1981), so that few lines cross.

import { bytes, count, draw } from "./page.js";

const WIDTH = 210, HEIGHT = 62, ACROSS = 70, DOWN = 18, MARGIN = 16, SWEEPS = 6;
const KINDS = {
  chain: "table", rows: "rows", groups: "groups", partitions: "first rows", block: "join", union: "union", view: "view",
};

export function kindOf(node) {
  return node.views?.length ? `view ${node.views.join(", ")}` : KINDS[node.kind] ?? node.kind;
}

export function heldAs(node) {
  if (!node.coverage.length) return "stateless";
  return node.coverage.includes("full") ? "full" : "partial";
}

function layersOf(nodes) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const depths = new Map();
  const depth = (id) => {
    if (!depths.has(id)) {
      const inputs = byId.get(id).inputs.filter((input) => byId.has(input));
      depths.set(id, inputs.length ? 1 + Math.max(...inputs.map(depth)) : 0);
    }
    return depths.get(id);
  };
  nodes.forEach((node) => depth(node.id));
  const deepest = Math.max(0, ...depths.values());
  const layers = Array.from({ length: deepest + 1 }, () => []);
  // Views stand in the last column, and what nobody else reads just before what reads it.
  const readers = readersOf(nodes);
  for (const node of [...nodes].sort((a, b) => depths.get(b.id) - depths.get(a.id))) {
    const next = (readers.get(node.id) ?? []).map((id) => depths.get(id));
    depths.set(node.id, node.kind === "view" ? deepest : next.length ? Math.min(...next) - 1 : depths.get(node.id));
  }
  for (const node of nodes) layers[depths.get(node.id)].push(node);
  return layers.filter((layer) => layer.length);
}

function readersOf(nodes) {
  const readers = new Map();
  for (const node of nodes) {
    for (const input of node.inputs) readers.set(input, [...(readers.get(input) ?? []), node.id]);
  }
  return readers;
}

function order(layers, readers) {
  const place = new Map();
  const settle = (layer) => layer.forEach((node, index) => place.set(node.id, index / Math.max(1, layer.length - 1)));
  layers.forEach(settle);
  const sort = (layer, neighbours) => {
    const mean = (node) => {
      const near = neighbours(node).map((id) => place.get(id)).filter((at) => at !== undefined);
      return near.length ? near.reduce((sum, at) => sum + at, 0) / near.length : place.get(node.id);
    };
    const means = new Map(layer.map((node) => [node.id, mean(node)]));
    layer.sort((a, b) => means.get(a.id) - means.get(b.id) || a.id - b.id);
    settle(layer);
  };
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    layers.forEach((layer) => sort(layer, (node) => node.inputs));
    [...layers].reverse().forEach((layer) => sort(layer, (node) => readers.get(node.id) ?? []));
  }
}

function positions(layers) {
  const tallest = Math.max(...layers.map((layer) => layer.length));
  const at = new Map();
  layers.forEach((layer, column) => {
    const step = (tallest * (HEIGHT + DOWN)) / layer.length;
    layer.forEach((node, row) => {
      at.set(node.id, { x: MARGIN + column * (WIDTH + ACROSS), y: MARGIN + (row + 0.5) * step - HEIGHT / 2 });
    });
  });
  const width = 2 * MARGIN + layers.length * (WIDTH + ACROSS) - ACROSS;
  return { at, width, height: 2 * MARGIN + tallest * (HEIGHT + DOWN) };
}

function related(nodes, chosen) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const readers = readersOf(nodes);
  const found = new Set();
  const walk = (id, next, seen) => {
    if (seen.has(id) || !byId.has(id)) return;
    seen.add(id);
    found.add(id);
    next(id).forEach((other) => walk(other, next, seen));
  };
  walk(chosen, (id) => byId.get(id).inputs, new Set());
  walk(chosen, (id) => readers.get(id) ?? [], new Set());
  return found;
}

function shortened(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

function what(node) {
  const table = /FROM (\S+)/.exec(node.relation);
  if (node.kind === "chain" && table) return table[1].replace(/^public\./, "");
  if (node.kind === "rows" && table) return `of ${table[1].replace(/^public\./, "")}`;
  return node.relation.split(" → ")[0];
}

function box(node, { x, y }, isChosen, isDim, choose) {
  const held = heldAs(node);
  const keys = held === "full" ? "all of it" : held === "partial" ? `${count(node.covered_keys)} keys` : "";
  const size = held === "stateless" ? "" : ` · ${bytes(node.state_bytes)}`;
  const classes = ["node", held, node.warnings.length && "warned", isChosen && "chosen", isDim && "dim"];
  return draw("g", {
    class: classes.filter(Boolean).join(" "), transform: `translate(${x} ${y})`, tabindex: "0", "data-node": String(node.id),
    click: () => choose(node.id), keydown: (event) => { if (event.key === "Enter") choose(node.id); },
  },
    draw("title", {}, node.relation),
    draw("rect", { width: String(WIDTH), height: String(HEIGHT) }),
    draw("text", { x: "10", y: "19", class: "kind" }, shortened(kindOf(node), 27)),
    draw("text", { x: "10", y: "36" }, node.kind === "view" ? "" : shortened(what(node), 29)),
    draw("text", { x: "10", y: "53", class: "more" }, keys + size));
}

export function drawGraph(svg, nodes, chosen, choose) {
  svg.replaceChildren();
  if (!nodes.length) return;
  const layers = layersOf(nodes);
  order(layers, readersOf(nodes));
  const { at, width, height } = positions(layers);
  svg.setAttribute("width", String(width));
  svg.setAttribute("height", String(height));
  const lit = nodes.some((node) => node.id === chosen) ? related(nodes, chosen) : undefined;
  for (const node of nodes) {
    for (const input of node.inputs.filter((id) => at.has(id))) {
      const from = at.get(input), to = at.get(node.id), middle = (from.x + WIDTH + to.x) / 2;
      const [y1, y2] = [from.y + HEIGHT / 2, to.y + HEIGHT / 2];
      const isDim = lit && !(lit.has(node.id) && lit.has(input));
      svg.append(draw("path", {
        d: `M${from.x + WIDTH} ${y1} C${middle} ${y1} ${middle} ${y2} ${to.x} ${y2}`, class: isDim ? "dim" : "",
      }));
    }
  }
  for (const node of nodes) {
    svg.append(box(node, at.get(node.id), node.id === chosen, lit && !lit.has(node.id), choose));
  }
}
