// The graph of a job: a box per vertex, an edge with its rate. It is drawn once; updates change texts and attributes only.

import { el, setAttribute, setText, svg } from "./dom.js";
import { edgeRate } from "./model.js";
import { clock, duration, percent, rate, watermark } from "./format.js";
import { BOX, layout, wrapped } from "./layout.js";
import { MAP, READABLE, viewport } from "./viewport.js";

const PAD = 9;
const LINE = 16;
const LETTERS = 25;
const NAME_LINES = 2;
const TALLEST = 0.62; // of the window

export function graphView(job, onchoose, width) {
  const { places, edges: routes, width: wide, height } = layout(job.graph, width);
  const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
    svg("path", { class: "arrow", d: "M0 0 8 4 0 8z" }));
  const drawing = svg("g", {}, svg("defs", {}, arrow));
  const edges = job.graph.edges.map((edge, place) => {
    const { path, label } = routes[place];
    const rated = svg("text", { class: "rate", x: label.x, y: label.y + 4, "text-anchor": "middle" });
    const hint = svg("title", {}, edge.ship_strategy + (edge.side_output ? `, side output ${edge.side_output}` : ""));
    const line = svg("path", { class: edge.side_output ? "edge side" : "edge", d: path, "marker-end": "url(#arrow)", "data-edge": `${edge.source}-${edge.target}` }, hint);
    drawing.append(line);
    return { edge, rated, line };
  });
  const boxes = job.graph.vertices.map((vertex) => vertexBox(vertex, places.get(vertex.id), onchoose));
  drawing.append(...edges.map((each) => each.rated), ...boxes.map((box) => box.node));
  const frame = frameFor(width, wide, height, Math.max(260, Math.round(window.innerHeight * TALLEST)));
  const dots = job.graph.vertices.map(({ id }) => ({ id, ...places.get(id) }));
  const view = viewport(drawing, { width: wide, height }, dots, frame);
  const legend = el("p", { class: "legend" },
    ...[["busy", "busy"], ["pressed", "back-pressured"], ["idle", "idle"]].map(([type, text]) => el("span", {}, el("i", { class: `c-${type}` }), text)),
    el("span", {}, "Yellow: from 10 % back-pressure. Red: from 50 %. Orange: from 80 % busy. Edges: records per second."));
  let opened = false;

  function update(current, vertices, chosen) {
    vertices.forEach((vertex, number) => {
      boxes[number].update(vertex, vertex.id === chosen);
      view.dot(vertex.number, vertex.level);
    });
    for (const { edge, rated, line } of edges) {
      const value = edgeRate(current, vertices, edge);
      setText(rated, value == null ? "" : rate(value));
      line.classList.toggle("flowing", value > 0);
    }
    if (!opened && view.node.isConnected) {
      opened = true;
      view.open();
    }
  }
  return { node: el("div", {}, view.node, legend), update };
}

// The frame of a drawing of this size: all of it, at a scale that can be read, and the map below it if it does not fit.
export function frameFor(width, wide, height, tallest) {
  const scale = Math.max(READABLE, Math.min(1, width / wide));
  const room = wide * scale > width + 1 ? Math.ceil(height * Math.min(MAP.width / wide, MAP.height / height)) : 0;
  return { width, height: Math.min(Math.ceil(height * scale) + room, tallest) };
}

// The width that a drawing has on this page.
export const roomForDrawings = () => Math.max(280, Math.min(1440, document.documentElement.clientWidth - 70));

// The watermark, and how far it lags behind the clock.
function watermarkLine(mark, lag) {
  const text = watermark(mark);
  if (lag == null) return `watermark ${text}`;
  return `wm ${text.includes(":") ? clock(mark) : text}, lag ${duration(lag)}`;
}

function vertexBox(info, { x, y }, onchoose) {
  const names = wrapped(info.name, LETTERS, NAME_LINES);
  const text = (type, line) => svg("text", { class: type, x: x + PAD, y: y + LINE * (line + 1) });
  const texts = [...names.map((_, line) => text("name", line)), ...["", "faint", "faint"].map((type, line) => text(type, names.length + line))];
  const bars = ["busy", "pressed", "idle"].map((type) => svg("rect", { class: `bar-${type}`, y: y + BOX.height - 10, height: 5 }));
  const box = svg("rect", { class: "box", x, y, width: BOX.width, height: BOX.height, rx: 7 });
  const about = info.operators.map((operator) => operator.name).join(" → ");
  const hint = svg("title", {}, about);
  const node = svg("g", { class: "vertex", tabindex: 0, role: "button", "aria-label": info.name }, hint, box, ...texts, ...bars);
  let chosen = null;
  node.addEventListener("click", () => onchoose(chosen));
  node.addEventListener("keydown", (event) => event.key === "Enter" && onchoose(chosen));
  names.forEach((line, number) => setText(texts[number], line));

  function update(vertex, isChosen) {
    chosen = vertex.id;
    setAttribute(node, "data-vertex", vertex.id);
    setAttribute(node, "data-level", vertex.level);
    node.classList.toggle("chosen", isChosen);
    const state = `${vertex.state.toLowerCase()}, ${vertex.parallelism} subtask${vertex.parallelism === 1 ? "" : "s"}`;
    const load = `busy ${percent(vertex.busy)}, back-pressured ${percent(vertex.pressed)}`;
    const lag = vertex.state === "RUNNING" && vertex.lag != null && vertex.lag >= 0 && vertex.lag < 1e11 ? vertex.lag : null;
    [state, load, watermarkLine(vertex.watermark, lag)].forEach((line, number) => setText(texts[names.length + number], line));
    setText(hint, `${about}\n${state}\n${load}\nwatermark ${watermark(vertex.watermark)}${lag == null ? "" : `, lag ${duration(lag)}`}`);
    const inner = BOX.width - 2 * PAD;
    let at = x + PAD;
    [vertex.busy, vertex.pressed, Math.max(0, 1 - vertex.busy - vertex.pressed)].forEach((share, number) => {
      const long = Math.max(0, Math.min(inner * share, x + PAD + inner - at));
      setAttribute(bars[number], "x", at.toFixed(1));
      setAttribute(bars[number], "width", long.toFixed(1));
      at += long;
    });
  }
  return { node, update };
}
