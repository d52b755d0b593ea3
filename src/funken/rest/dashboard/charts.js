// Line charts and the timeline of checkpoints, as SVG.

import { el, setText, svg } from "./dom.js";
import { bytes, clock, duration } from "./format.js";

const SIZE = { width: 560, height: 190, left: 76, right: 10, top: 10, bottom: 22 };
const WIDE = 1160;
const WIDEST_BAR = 28;
const ROOM_FOR_TIMES = 130;

function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value);
}

const DURATIONS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1440].map((minutes) => minutes * 60_000);

// The same of ms, whose lines are at round durations.
const ceilingOfTime = (value) => (value > 50_000 && DURATIONS.find((each) => each >= value)) || ceiling(value);

function frame(title) {
  return svg("svg", { width: "100%", height: SIZE.height, role: "img", "aria-label": title });
}

// The width of a drawing on this page, so that texts have one size everywhere.
export function widthOf(root, otherwise) {
  const style = root.parentNode && getComputedStyle(root.parentNode);
  const room = style ? root.parentNode.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) : 0;
  const width = Math.max(240, Math.round(room) || otherwise);
  root.setAttribute("viewBox", `0 0 ${width} ${root.getAttribute("height")}`);
  return width;
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

// A chart of series over time: each is [title, value(sample)]. The pointer chooses a moment whose values are shown.
// ``least`` is how high the drawing is at least: 1 for shares, so that a little does not look like much.
export function lineChart(title, series, format, least = 0) {
  const root = frame(title);
  const values = series.map(() => el("b"));
  const moment = el("span", { class: "moment" });
  const legend = el("div", { class: "legend" }, ...series.map(([name], number) => el("span", {}, el("i", { class: `k${number}` }), `${name} `, values[number])), moment);
  const none = el("p", { class: "empty" }, "No values yet.");
  const node = el("section", { class: "panel chart" }, el("h2", {}, title), root, none, legend);
  const cursor = svg("line", { class: "cursor", y1: SIZE.top, y2: SIZE.height - SIZE.bottom });
  let shown = { samples: [], begin: 0, end: 1, width: SIZE.width };
  let chosen = null;

  function choose(at) {
    const { samples } = shown;
    chosen = at == null || !samples.length ? null : samples.reduce((found, sample) => (Math.abs(sample.at - at) < Math.abs(found.at - at) ? sample : found)).at;
    say();
  }

  function say() {
    const { samples, begin, end, width } = shown;
    const sample = samples.find((each) => each.at === chosen) || samples[samples.length - 1];
    const isChosen = sample != null && sample.at === chosen;
    cursor.style.display = isChosen ? "" : "none";
    if (isChosen) {
      const x = SIZE.left + ((chosen - begin) / (end - begin)) * (width - SIZE.left - SIZE.right);
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
    }
    setText(moment, isChosen ? `at ${clock(chosen)}` : "");
    series.forEach(([, value], number) => {
      const found = sample && value(sample);
      setText(values[number], found == null ? "–" : format(found));
    });
  }

  root.addEventListener("pointermove", (event) => {
    const place = root.getBoundingClientRect();
    const x = ((event.clientX - place.left) / place.width) * shown.width;
    choose(shown.begin + ((x - SIZE.left) / (shown.width - SIZE.left - SIZE.right)) * (shown.end - shown.begin));
  });
  root.addEventListener("pointerdown", (event) => event.target.releasePointerCapture?.(event.pointerId));
  root.addEventListener("pointerleave", () => choose(null));

  function update(samples) {
    const known = samples.some((sample) => series.some(([, value]) => value(sample) != null));
    none.hidden = known;
    root.style.display = known ? "" : "none";
    if (!known) return say();
    const begin = samples[0].at;
    const end = Math.max(samples[samples.length - 1].at, begin + 30000);
    const width = widthOf(root, SIZE.width);
    const inner = width - SIZE.left - SIZE.right;
    shown = { samples, begin, end, width };
    const points = series.map(([, value]) => samples.map((sample) => [sample.at, value(sample)]));
    const top = ceiling(Math.max(least, ...points.flat().map((point) => point[1] ?? 0)));
    const x = (at) => SIZE.left + ((at - begin) / (end - begin)) * inner;
    const y = (value) => SIZE.top + (1 - value / top) * (SIZE.height - SIZE.top - SIZE.bottom);
    const lines = points.map((each, number) => svg("path", { class: `series s${number}`, d: path(each, x, y) }));
    root.replaceChildren(axes(top, format, begin, end, width), ...lines, cursor);
    return say();
  }
  return { node, update };
}

// A line that is broken where there are no values.
function path(points, x, y) {
  let pen = "M";
  return points.map(([at, value]) => {
    if (value == null) {
      pen = "M";
      return "";
    }
    const step = `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
    return step;
  }).join("");
}

// Checkpoints over time: a bar each, as high as it took long. One that failed, after minutes perhaps, may leave the drawing.
export function checkpointTimeline(onchoose) {
  const root = frame("Checkpoints");
  const node = el("section", { class: "panel" }, el("h2", {}, "Duration of checkpoints"), root);

  function update(history, now) {
    const known = [...history].reverse();
    node.hidden = !known.length;
    if (!known.length) return;
    const lasting = (each) => (each.ended == null ? now : each.ended) - each.triggered;
    const through = known.filter((each) => each.status !== "FAILED");
    const top = ceilingOfTime(Math.max(...(through.length ? through : known).map(lasting)));
    const wide = widthOf(root, WIDE);
    const step = Math.min(WIDEST_BAR, (wide - SIZE.left - SIZE.right) / known.length);
    const inner = SIZE.height - SIZE.top - SIZE.bottom;
    const bars = known.map((each, place) => {
      const height = Math.min(inner, Math.max(3, (lasting(each) / top) * inner));
      const about = `${each.kind} ${each.id}, ${each.status}: ${duration(lasting(each))}, ${bytes(each.size)}`;
      const bar = svg("rect", { class: `mark ${each.status} ${each.kind}`, x: SIZE.left + place * step, y: SIZE.height - SIZE.bottom - height, width: Math.max(1, step - Math.min(3, step / 3)), height }, svg("title", {}, about));
      bar.addEventListener("click", () => onchoose(each.id));
      return bar;
    });
    root.replaceChildren(axes(top, duration, known[0].triggered, known[known.length - 1].triggered, wide, SIZE.left + known.length * step), ...bars);
  }
  return { node, update };
}
