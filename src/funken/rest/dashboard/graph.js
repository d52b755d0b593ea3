// The graph of a job: stages as columns, which go on in a further band below when they are too many for the width.
// It is drawn once; updates change texts and attributes only.

import { el, setAttribute, setText, svg } from "./dom.js";
import { edgeRate } from "./model.js";
import { brief, clock, count, percent, rate, shorten, watermark, duration } from "./format.js";

const TOP = 20;
const SIZES = {
  large: { name: "large", width: 196, height: 88, gapX: 60, gapY: 18, left: 18, right: 58, band: 32, line: 17, pad: 9, letters: 25 },
  small: { name: "small", width: 132, height: 60, gapX: 36, gapY: 10, left: 16, right: 40, band: 26, line: 15, pad: 6, letters: 17 },
};
const TALL = 520; // higher than this, a graph is drawn with small boxes

// Where boxes go: a column per stage, within it in the order of what feeds them.
export function layout(graph, width, size) {
  const stages = [...new Set(graph.vertices.map((vertex) => vertex.stage))].sort((a, b) => a - b);
  const margins = size.left + size.right; // for edges that lead to the next band, and their rates
  const perBand = Math.max(1, Math.floor((width - margins + size.gapX) / (size.width + size.gapX)));
  const places = new Map();
  const heads = [];
  const bands = [];
  let top = TOP;
  for (let begin = 0; begin < stages.length; begin += perBand) {
    const band = stages.slice(begin, begin + perBand);
    let highest = 0;
    band.forEach((stage, column) => {
      const members = graph.vertices.filter((vertex) => vertex.stage === stage).map((vertex) => {
        const from = graph.edges.filter((edge) => edge.target === vertex.id).map((edge) => places.get(edge.source)?.row ?? 0);
        return { vertex, order: from.length ? from.reduce((a, b) => a + b, 0) / from.length : vertex.id };
      });
      members.sort((a, b) => a.order - b.order || a.vertex.id - b.vertex.id);
      const x = column * (size.width + size.gapX) + size.left;
      members.forEach(({ vertex }, row) => {
        places.set(vertex.id, { x, y: top + row * (size.height + size.gapY), row, band: bands.length, column });
      });
      highest = Math.max(highest, members.length);
      heads.push({ x, y: top - 8, stage });
    });
    const bottom = top + highest * (size.height + size.gapY) - size.gapY;
    bands.push({ top, bottom });
    top = bottom + size.band + TOP;
  }
  const columns = Math.min(perBand, stages.length);
  return { places, heads, bands, width: columns * (size.width + size.gapX) - size.gapX + margins, height: top - size.band - TOP + 6 };
}

// The way of an edge, and where its rate stands. One that goes to another band, or over columns, runs in the free space below boxes.
export function route(from, to, bands, size) {
  const start = { x: from.x + size.width, y: from.y + size.height / 2 };
  const end = { x: to.x - 5, y: to.y + size.height / 2 };
  const label = { x: start.x + 3, y: start.y - 5 };
  if (from.band === to.band && to.column === from.column + 1) {
    const middle = (start.x + end.x) / 2;
    return { path: `M${start.x} ${start.y}C${middle} ${start.y} ${middle} ${end.y} ${end.x} ${end.y}`, label };
  }
  if (from.column === to.column && from.band === to.band) {
    const down = to.y > from.y;
    const x = from.x + size.width / 2;
    const y = down ? [from.y + size.height, to.y - 5] : [from.y, to.y + size.height + 5];
    return { path: `M${x} ${y[0]}V${y[1]}`, label: { x: x + 6, y: y[0] + 13 }, vertical: true };
  }
  const free = from.band === to.band ? Math.max(from.y, to.y) + size.height + size.gapY / 2 : bands[from.band].bottom + size.band / 2;
  const out = start.x + (from.band === to.band ? 12 : size.right - 6);
  const into = end.x - 10;
  return { path: `M${start.x} ${start.y}H${out}V${free}H${into}V${end.y}H${end.x}`, label };
}

export function graphView(job, onchoose, width = 1180) {
  const size = layout(job.graph, width, SIZES.large).height > TALL ? SIZES.small : SIZES.large;
  const { places, heads, bands, width: wide, height } = layout(job.graph, width, size);
  const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
    svg("path", { class: "arrow", d: "M0 0 8 4 0 8z" }));
  const root = svg("svg", { class: `graph ${size.name}`, viewBox: `0 0 ${wide} ${height}`, width: wide, height, role: "img", "aria-label": "Job graph" }, svg("defs", {}, arrow));
  root.append(...heads.map(({ x, y, stage }) => svg("text", { class: "stage", x, y }, `stage ${stage}`)));
  const edges = job.graph.edges.map((edge) => {
    const { path, label } = route(places.get(edge.source), places.get(edge.target), bands, size);
    const rated = svg("text", { class: "rate", ...label });
    const hint = svg("title", {}, edge.ship_strategy + (edge.side_output ? `, side output ${edge.side_output}` : ""));
    root.append(svg("path", { class: "edge", d: path, "marker-end": "url(#arrow)", "data-edge": `${edge.source}-${edge.target}` }, hint));
    return { edge, rated };
  });
  const boxes = job.graph.vertices.map((vertex) => vertexBox(vertex, places.get(vertex.id), size, onchoose));
  root.append(...boxes.map((box) => box.node), ...edges.map((each) => each.rated));
  const legend = el("p", { class: "legend" },
    ...[["busy", "busy"], ["pressed", "back-pressured"], ["idle", "idle"]].map(([kind, text]) => el("span", {}, el("i", { class: `c-${kind}` }), text)),
    el("span", {}, "a box is yellow from 10 %, red from 50 % back-pressure, orange from 80 % busy; edges have their records per second"));

  function update(current, vertices, chosen) {
    vertices.forEach((vertex, number) => boxes[number].update(vertex, vertex.id === chosen));
    for (const { edge, rated } of edges) {
      const value = edgeRate(current, vertices, edge);
      setText(rated, value == null ? "" : size === SIZES.small ? count(value) : rate(value));
    }
  }
  return { node: el("div", {}, root, legend), update };
}

// The time of the watermark and how far it lags; its date where that says nothing.
function watermarkLine(mark, lag, small) {
  const text = watermark(mark);
  if (lag == null) return small ? `wm ${text.replace(/^\d+-/, "")}` : `wm ${text}`;
  const time = text.includes(":") ? clock(mark) : text;
  return small ? `${time}, lag ${brief(lag)}` : `wm ${time}, lag ${duration(lag)}`;
}

function vertexBox(info, { x, y }, size, onchoose) {
  const small = size === SIZES.small;
  const kinds = small ? ["name", "faint", "faint"] : ["name", "", "faint", "faint"];
  const texts = kinds.map((kind, line) => svg("text", { class: kind, x: x + size.pad, y: y + size.line * (line + 1) }));
  const bars = ["busy", "pressed", "idle"].map((kind) => svg("rect", { class: `bar-${kind}`, y: y + size.height - 8, height: 5 }));
  const box = svg("rect", { class: "box", x, y, width: size.width, height: size.height, rx: 7 });
  const about = info.operators.map((operator) => operator.name).join(" → ");
  const hint = svg("title", {}, about);
  const node = svg("g", { class: "vertex", tabindex: 0, role: "button", "aria-label": info.name }, hint, box, ...texts, ...bars);
  let chosen = null;
  node.addEventListener("click", () => onchoose(chosen));
  node.addEventListener("keydown", (event) => event.key === "Enter" && onchoose(chosen));
  setText(texts[0], shorten(info.name, size.letters) + (small ? ` ×${info.parallelism}` : ""));

  function update(vertex, isChosen) {
    chosen = vertex.id;
    setAttribute(node, "data-vertex", vertex.id);
    setAttribute(node, "data-level", vertex.level);
    node.classList.toggle("chosen", isChosen);
    const state = `${vertex.state.toLowerCase()} · ${vertex.parallelism} subtask${vertex.parallelism === 1 ? "" : "s"}`;
    const load = `busy ${percent(vertex.busy)} · ${small ? "bp" : "back-pr."} ${percent(vertex.pressed)}`;
    const lag = vertex.lag != null && vertex.lag >= 0 && vertex.lag < 1e11 ? vertex.lag : null;
    const mark = watermarkLine(vertex.watermark, lag, small);
    (small ? [load, mark] : [state, load, mark]).forEach((text, line) => setText(texts[line + 1], text));
    setText(hint, `${about}\n${state}, ${load}\nwatermark ${watermark(vertex.watermark)}${lag == null ? "" : `, lag ${duration(lag)}`}`);
    const inner = size.width - 2 * size.pad;
    let at = x + size.pad;
    [vertex.busy, vertex.pressed, Math.max(0, 1 - vertex.busy - vertex.pressed)].forEach((share, number) => {
      const wide = Math.max(0, Math.min(inner * share, x + size.pad + inner - at));
      setAttribute(bars[number], "x", at.toFixed(1));
      setAttribute(bars[number], "width", wide.toFixed(1));
      at += wide;
    });
  }
  return { node, update };
}
