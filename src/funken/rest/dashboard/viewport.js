// A drawing in a frame that may be smaller: dragging moves it; buttons, keys, Ctrl and the wheel, or two fingers scale it. A map shows the part in view.

import { el, setAttribute, svg } from "./dom.js";

export const READABLE = 0.7; // texts of 12 pixels have at least 8
const SMALLEST = 0.15;
const LARGEST = 2;
const STEP = 1.25;
export const MAP = { width: 168, height: 96 };

export function viewport(drawing, { width, height }, boxes, frame, label = "Job graph") {
  const scene = svg("g", {}, drawing);
  const root = svg("svg", { class: "graph", role: "img", "aria-label": label, tabindex: 0, width: "100%", height: frame.height });
  root.append(scene);
  const seen = svg("rect", { class: "seen" });
  const shrink = Math.min(MAP.width / width, MAP.height / height);
  const dots = boxes.map(({ id, x, y, width: wide, height: high }) => svg("rect", { class: "dot", "data-dot": id, x: x * shrink, y: y * shrink, width: Math.max(2, wide * shrink), height: Math.max(2, high * shrink) }));
  const map = svg("svg", { class: "map", width: width * shrink, height: height * shrink, "aria-hidden": "true" }, ...dots, seen);
  const view = { x: 0, y: 0, scale: 1 };
  const size = () => ({ width: root.clientWidth || frame.width, height: root.clientHeight || frame.height });

  function show() {
    const own = size();
    const [wide, high] = [own.width / view.scale, own.height / view.scale];
    view.x = wide >= width ? (width - wide) / 2 : Math.min(Math.max(view.x, 0), width - wide);
    view.y = high >= height ? (wide >= width ? (height - high) / 2 : 0) : // above the map, if there is one
      Math.min(Math.max(view.y, 0), height - high);
    setAttribute(scene, "transform", `scale(${view.scale}) translate(${-view.x} ${-view.y})`);
    const all = wide >= width - 1 && high >= height - 1;
    setAttribute(map, "class", all ? "map whole" : "map");
    for (const [name, value] of [["x", view.x], ["y", view.y], ["width", Math.min(wide, width)], ["height", Math.min(high, height)]]) {
      setAttribute(seen, name, (Math.max(0, value) * shrink).toFixed(1));
    }
  }

  function scale(to, at) {
    const own = size();
    const point = at || { x: own.width / 2, y: own.height / 2 };
    const next = Math.min(LARGEST, Math.max(SMALLEST, to));
    view.x += point.x / view.scale - point.x / next;
    view.y += point.y / view.scale - point.y / next;
    view.scale = next;
    show();
  }

  // All of it; ``readable``: at a scale that can be read, with the first box in the middle of its side.
  function fit(readable = false) {
    const own = size();
    const whole = Math.min(1, own.width / width, own.height / height);
    view.scale = Math.max(SMALLEST, readable ? Math.max(whole, READABLE) : whole);
    const [first] = boxes;
    view.x = first ? first.x + first.width / 2 - own.width / view.scale / 2 : 0;
    view.y = first ? first.y + first.height / 2 - own.height / view.scale / 2 : 0;
    show();
  }

  const move = (x, y) => {
    view.x += x / view.scale;
    view.y += y / view.scale;
    show();
  };
  const buttons = el("div", { class: "zoom" },
    el("button", { type: "button", title: "Larger (+)", "aria-label": "Larger", onclick: () => scale(view.scale * STEP) }, "+"),
    el("button", { type: "button", title: "Smaller (-)", "aria-label": "Smaller", onclick: () => scale(view.scale / STEP) }, "−"),
    el("button", { type: "button", title: "All of it (0)", "aria-label": "All of it", onclick: () => fit() }, "⤢"));
  listen(root, { scale: (factor, at) => scale(view.scale * factor, at), move, fit });
  map.addEventListener("pointerdown", (event) => {
    const place = map.getBoundingClientRect();
    const own = size();
    view.x = (event.clientX - place.left) / shrink - own.width / view.scale / 2;
    view.y = (event.clientY - place.top) / shrink - own.height / view.scale / 2;
    show();
  });
  const node = el("div", { class: "viewport" }, buttons, root, map);
  return { node, open: () => fit(true), dot: (id, level) => setAttribute(dots.find((each) => each.dataset.dot === String(id)), "data-level", level) };
}

const MOVES = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] };
const CLICK = 4; // a pointer that moved less was a click

function listen(root, { scale, move, fit }) {
  const fingers = new Map();
  let apart = null;
  let moved = 0;
  const inside = (x, y) => {
    const place = root.getBoundingClientRect();
    return { x: x - place.left, y: y - place.top };
  };
  root.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    scale(event.deltaY < 0 ? STEP : 1 / STEP, inside(event.clientX, event.clientY));
  }, { passive: false });
  root.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") scale(STEP);
    else if (event.key === "-") scale(1 / STEP);
    else if (event.key === "0") fit();
    else if (MOVES[event.key]) move(...MOVES[event.key]);
    else return;
    event.preventDefault();
  });
  root.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved = 0;
    apart = null;
  });
  root.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (!last) return;
    if (!event.buttons) { // it was released outside
      fingers.delete(event.pointerId);
      return;
    }
    const now = { x: event.clientX, y: event.clientY };
    fingers.set(event.pointerId, now);
    if (fingers.size === 1) {
      moved += Math.abs(now.x - last.x) + Math.abs(now.y - last.y);
      if (moved > CLICK) {
        if (!root.hasPointerCapture(event.pointerId)) root.setPointerCapture(event.pointerId);
        move(last.x - now.x, last.y - now.y);
      }
      return;
    }
    const [one, two] = [...fingers.values()];
    const distance = Math.hypot(one.x - two.x, one.y - two.y);
    if (apart) scale(distance / apart, inside((one.x + two.x) / 2, (one.y + two.y) / 2));
    apart = distance;
  });
  for (const name of ["pointerup", "pointercancel"]) {
    root.addEventListener(name, (event) => {
      fingers.delete(event.pointerId);
      apart = null;
    });
  }
  root.addEventListener("click", (event) => {
    if (moved > CLICK) event.stopPropagation();
  }, true);
}
