// Where the boxes and edges of a job's graph go: layers by dagre, which crosses few edges and leads them around boxes.

import { Graph, layout as arrange } from "./dagre.js";

export const BOX = { width: 208, height: 98 };
const RATE = { width: 62, height: 16 };
const NARROW = 720; // below this width (CSS pixels) a job flows down the page

// Places of vertices and edges by id, in the direction that fits the width of the page. ``edges`` may have room for a label.
export function layout(graph, width, { sizes = () => BOX, label = RATE, narrow = NARROW } = {}) {
  const down = width < narrow;
  const arranged = new Graph({ multigraph: true });
  arranged.setGraph({ rankdir: down ? "TB" : "LR", nodesep: 26, edgesep: 14, ranksep: down ? 34 : 30, marginx: 12, marginy: 12 });
  arranged.setDefaultEdgeLabel(() => ({}));
  for (const { id } of graph.vertices) arranged.setNode(String(id), { ...sizes(id) });
  graph.edges.forEach((edge, place) => arranged.setEdge(String(edge.source), String(edge.target), { ...label, labelpos: "c" }, String(place)));
  arrange(arranged);
  const places = new Map(graph.vertices.map(({ id }) => {
    const { x, y, width: wide, height: high } = arranged.node(String(id));
    return [id, { x: x - wide / 2, y: y - high / 2, width: wide, height: high }];
  }));
  const layers = new Map(); // the middle of each layer, and half of what its largest box takes
  for (const { id } of graph.vertices) {
    const node = arranged.node(String(id));
    const middle = Math.round(node[down ? "y" : "x"]);
    layers.set(middle, Math.max(layers.get(middle) || 0, node[down ? "height" : "width"] / 2));
  }
  const edges = graph.edges.map((edge, place) => {
    const [from, to] = [arranged.node(String(edge.source)), arranged.node(String(edge.target))];
    const { points, x, y } = arranged.edge(String(edge.source), String(edge.target), String(place));
    return { path: around(from, to, points.slice(1, -1), layers, down), label: { x, y } };
  });
  const { width: wide, height } = arranged.graph();
  return { places, edges, width: wide, height };
}

// The way of an edge from the side of a box to the side of another. Past the boxes of a layer it is straight, in the gaps it bends.
function around(from, to, bends, layers, down) {
  const [along, across, side] = down ? ["y", "x", "height"] : ["x", "y", "width"];
  const sign = from[along] <= to[along] ? 1 : -1;
  const stops = [[from[along] + (sign * from[side]) / 2, from[across]]];
  for (const bend of bends) {
    const half = layers.get(Math.round(bend[along]));
    if (half) stops.push([bend[along] - sign * half, bend[across]], [bend[along] + sign * half, bend[across]]);
    else stops.push([bend[along], bend[across]]);
  }
  stops.push([to[along] - (sign * to[side]) / 2, to[across]]);
  const at = ([first, second]) => (down ? `${second.toFixed(1)} ${first.toFixed(1)}` : `${first.toFixed(1)} ${second.toFixed(1)}`);
  return stops.slice(1).reduce((path, stop, place) => {
    const last = stops[place];
    const middle = (last[0] + stop[0]) / 2;
    return `${path}C${at([middle, last[1]])} ${at([middle, stop[1]])} ${at(stop)}`;
  }, `M${at(stops[0])}`);
}

// A text on at most so many lines of so many letters, broken at spaces and arrows where that is possible.
export function wrapped(text, letters, lines) {
  const words = text.split(/(?<=[\s:,>_.-])/);
  const found = [""];
  for (const word of words) {
    let rest = word;
    while ((found[found.length - 1] + rest).trimEnd().length > letters) {
      if (!found[found.length - 1]) {
        found[found.length - 1] = rest.slice(0, letters);
        rest = rest.slice(letters);
      }
      found.push("");
      if (!rest) break;
    }
    found[found.length - 1] += rest;
  }
  const full = found.map((line) => line.trim()).filter(Boolean);
  if (full.length <= lines) return full;
  return [...full.slice(0, lines - 1), `${full[lines - 1].slice(0, letters - 1)}…`];
}
