// The plan of a job as a drawing: a box for each operator with what it does (of SQL: its line in EXPLAIN), the operators of a vertex in one colour.

import { el, setText, svg } from "./dom.js";
import { frameFor, roomForDrawings } from "./graph.js";
import { layout, wrapped } from "./layout.js";
import { viewport } from "./viewport.js";

const WIDTH = 268;
const LETTERS = 36;
const LINES = 6;
const PAD = 10;
const NAME = 20;
const LINE = 15;
const TINTS = 6;
const TALLEST = 1600; // a plan goes down the page, which scrolls

// Operators with their lines, and the ways between them.
function operatorsOf(job) {
  const strategies = new Map();
  const vertexOf = new Map();
  job.graph.vertices.forEach((info) => info.operators.forEach((operator) => vertexOf.set(operator.id, info.id)));
  job.graph.edges.forEach((edge) => strategies.set(`${edge.source}-${edge.target}`, edge.ship_strategy));
  const vertices = job.graph.vertices.flatMap((info, number) => info.operators.map((operator) => {
    const text = operator.description || operator.kind;
    const name = operator.description && operator.description.includes("(") ? operator.description.split("(")[0] : operator.name;
    const rest = text.startsWith(`${name}(`) ? text.slice(name.length + 1, text.endsWith(")") ? -1 : undefined) : text;
    return { id: operator.id, name, text, vertex: info.name, tint: number % TINTS, lines: wrapped(rest === name ? "" : rest, LETTERS, LINES) };
  }));
  const edges = job.graph.vertices.flatMap((info) => info.operators.flatMap((operator, place) => {
    // A snapshot of an older version has no inputs: its operators are a chain.
    const inputs = operator.inputs?.length ? operator.inputs : place ? [info.operators[place - 1].id] : lastOf(job, info);
    return inputs.filter((input) => vertexOf.has(input)).map((input) => {
      const source = vertexOf.get(input);
      return { source: input, target: operator.id, strategy: source === info.id ? "" : strategies.get(`${source}-${info.id}`) || "" };
    });
  }));
  return { vertices, edges };
}

// The last operators of the vertices before a vertex.
const lastOf = (job, { id }) => job.graph.edges.filter((edge) => edge.target === id).map((edge) => job.graph.vertices.find((info) => info.id === edge.source).operators.at(-1).id);

const heightOf = (operator) => 2 * PAD + NAME + LINE * operator.lines.length;

export function planTab(job) {
  const graph = operatorsOf(job);
  const sizes = new Map(graph.vertices.map((operator) => [operator.id, { width: WIDTH, height: heightOf(operator) }]));
  const width = roomForDrawings();
  const drawn = layout(graph, width, { sizes: (id) => sizes.get(id), label: { width: 84, height: 16 }, narrow: Infinity });
  const heading = el("h2");
  const text = el("pre");
  const detail = el("section", { class: "panel", id: "operator", hidden: true }, heading, text);
  let chosen = null;

  const arrow = svg("marker", { id: "plan-arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { class: "arrow", d: "M0 0 8 4 0 8z" }));
  const drawing = svg("g", {}, svg("defs", {}, arrow));
  graph.edges.forEach((edge, place) => {
    const { path, label } = drawn.edges[place];
    drawing.append(svg("path", { class: edge.strategy ? "edge" : "edge chained", d: path, "marker-end": "url(#plan-arrow)", "data-edge": `${edge.source}-${edge.target}` }));
    if (edge.strategy) drawing.append(svg("text", { class: "rate", x: label.x, y: label.y + 4, "text-anchor": "middle" }, edge.strategy));
  });
  const boxes = graph.vertices.map((operator) => {
    const { x, y, width: wide, height: high } = drawn.places.get(operator.id);
    const lines = operator.lines.map((line, number) => svg("text", { class: "faint", x: x + PAD, y: y + PAD + NAME + LINE * (number + 1) - 4 }, line));
    const box = svg("g", { class: `vertex tint${operator.tint}`, tabindex: 0, role: "button", "aria-label": operator.name },
      svg("title", {}, `${operator.text}\nin ${operator.vertex}`), svg("rect", { class: "box", x, y, width: wide, height: high, rx: 7 }),
      svg("text", { class: "name", x: x + PAD, y: y + PAD + 12 }, wrapped(operator.name, 32, 1)[0] || ""), ...lines);
    const choose = () => {
      chosen = chosen === operator.id ? null : operator.id;
      boxes.forEach((each, place) => each.classList.toggle("chosen", graph.vertices[place].id === chosen));
      detail.hidden = chosen === null;
      setText(heading, `${operator.name}, in ${operator.vertex}`);
      setText(text, operator.text);
    };
    box.addEventListener("click", choose);
    box.addEventListener("keydown", (event) => event.key === "Enter" && choose());
    return box;
  });
  drawing.append(...boxes);
  const dots = graph.vertices.map(({ id }) => ({ id, ...drawn.places.get(id) }));
  const view = viewport(drawing, { width: drawn.width, height: drawn.height }, dots, frameFor(width, drawn.width, drawn.height, TALLEST), "Plan");
  const note = el("p", { class: "legend" }, "Operators of one colour run in one task; a thick edge is an exchange. A click shows the whole text.");
  let opened = false;
  return {
    node: el("div", { class: "plan" }, el("section", { class: "panel" }, view.node, note), detail),
    update() {
      if (opened || !view.node.isConnected) return;
      opened = true;
      view.open();
    },
  };
}
