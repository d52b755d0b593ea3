// Line charts and the timeline of checkpoints, as SVG.

import { el, setText, svg } from "./dom.js";
import { bytes, clock, duration } from "./format.js";

const SIZE = { width: 560, height: 190, left: 58, right: 10, top: 10, bottom: 22 };
const WIDE = 1160;
const WIDEST_BAR = 28;
const ROOM_FOR_TIMES = 130;

function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value);
}

function frame(title, width = SIZE.width) {
  return svg("svg", { viewBox: `0 0 ${width} ${SIZE.height}`, width: "100%", role: "img", "aria-label": title });
}

// Lines with their values, and what the time was at the left and the right; ``last`` is where the right is, if not at the edge.
function axes(top, format, begin, end, width = SIZE.width, last = width - SIZE.right) {
  const inner = SIZE.height - SIZE.top - SIZE.bottom;
  const group = svg("g", { class: "axis" });
  for (const share of [0, 0.5, 1]) {
    const y = SIZE.top + inner * (1 - share);
    group.append(svg("line", { x1: SIZE.left, x2: width - SIZE.right, y1: y, y2: y }));
    group.append(svg("text", { x: SIZE.left - 6, y: y + 4, "text-anchor": "end" }, format(top * share)));
  }
  group.append(svg("text", { x: SIZE.left, y: SIZE.height - 6 }, clock(begin)));
  if (last - SIZE.left >= ROOM_FOR_TIMES) group.append(svg("text", { x: last, y: SIZE.height - 6, "text-anchor": "end" }, clock(end)));
  return group;
}

// A chart of series over time: each is [title, value(sample)].
export function lineChart(title, series, format) {
  const root = frame(title);
  const values = series.map(() => el("b"));
  const legend = el("div", { class: "legend" }, ...series.map(([name], number) => el("span", {}, el("i", { class: `k${number}` }), `${name} `, values[number])));
  const node = el("section", { class: "panel" }, el("h2", {}, title), root, legend);

  function update(samples) {
    if (!samples.length) return;
    const begin = samples[0].at;
    const end = Math.max(samples[samples.length - 1].at, begin + 30000);
    const found = series.map(([, value]) => samples.map((sample) => [sample.at, value(sample)]).filter((point) => point[1] != null));
    const top = ceiling(Math.max(0, ...found.flat().map((point) => point[1])));
    const x = (at) => SIZE.left + ((at - begin) / (end - begin)) * (SIZE.width - SIZE.left - SIZE.right);
    const y = (value) => SIZE.top + (1 - value / top) * (SIZE.height - SIZE.top - SIZE.bottom);
    const lines = found.map((points, number) =>
      svg("path", { class: `series s${number}`, d: points.map((point, place) => `${place ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join("") }));
    root.replaceChildren(axes(top, format, begin, end), ...lines);
    found.forEach((points, number) => setText(values[number], points.length ? format(points[points.length - 1][1]) : "–"));
  }
  return { node, update };
}

// Checkpoints over time: a bar each, as high as it took long.
export function checkpointTimeline(onchoose) {
  const root = frame("Checkpoints", WIDE);
  const node = el("section", { class: "panel" }, el("h2", {}, "Duration of checkpoints"), root);

  function update(history, now) {
    const known = [...history].reverse();
    if (!known.length) return root.replaceChildren();
    const lasting = (each) => (each.ended == null ? now : each.ended) - each.triggered;
    const top = ceiling(Math.max(...known.map(lasting)));
    const step = Math.min(WIDEST_BAR, (WIDE - SIZE.left - SIZE.right) / known.length);
    const inner = SIZE.height - SIZE.top - SIZE.bottom;
    const bars = known.map((each, place) => {
      const height = Math.max(3, (lasting(each) / top) * inner);
      const about = `${each.kind} ${each.id}, ${each.status}: ${duration(lasting(each))}, ${bytes(each.size)}`;
      const bar = svg("rect", { class: `mark ${each.status} ${each.kind}`, x: SIZE.left + place * step + 1, y: SIZE.height - SIZE.bottom - height, width: Math.max(2, step - 3), height }, svg("title", {}, about));
      bar.addEventListener("click", () => onchoose(each.id));
      return bar;
    });
    root.replaceChildren(axes(top, duration, known[0].triggered, known[known.length - 1].triggered, WIDE, SIZE.left + known.length * step), ...bars);
  }
  return { node, update };
}
