// The flame graph of a vertex: where the threads of its subtasks spend their time, by function. A click on a bar makes it the whole width.

import { ApiError, api, jobPath } from "./api.js";
import { el, setText, svg } from "./dom.js";
import { moment, percent } from "./format.js";

const ROW = 18;
const LETTER = 6.6;
const THINNEST = 1; // pixels
const FOLDED = 2; // frames; more that every sample has are one bar
const AGAIN_MS = 5000;
const WITHOUT = { "-1": "The job is over: it has no threads.", "-2": "Flame graphs are switched off." }; // as Flink says it
const TYPES = [["FULL", "on and off the CPU"], ["ON_CPU", "on the CPU"], ["OFF_CPU", "waiting"]];

// Frames of Funken have a path below its folder, or are loops that it has generated; those of everything else have a file name.
const isFunken = (name) => /\([^()]*[\\/][^()]*:\d+\)$/.test(name) || name.includes("(<funken operators");

// Which frames are Funken's, or lead to it: those of Python's threads and of Spark's worker, above the first of its own.
export function ownFrames(root) {
  const own = new Set();
  const visit = (frame, met) => {
    const mine = isFunken(frame.name);
    const below = (frame.children || []).map((child) => visit(child, met || mine)).some(Boolean);
    if (mine || (!met && below)) own.add(frame);
    return mine || below;
  };
  visit(root, false);
  return own;
}

// The frames that are in every sample and are Funken's, from the root on: they say nothing about the program.
export function trunkOf(root, own) {
  const found = [];
  let frame = root;
  while (frame) {
    frame = (frame.children || []).find((child) => child.value === root.value && own.has(child));
    if (frame) found.push(frame);
  }
  return found;
}

// Bars of a tree within a width: each with its place, its frame and its share of all samples.
export function barsOf(root, width) {
  const found = [];
  const put = (frame, x, row, scale) => {
    const wide = frame.value * scale;
    if (wide < THINNEST) return;
    found.push({ frame, x, row, wide });
    let at = x;
    for (const child of frame.children || []) {
      put(child, at, row + 1, scale);
      at += child.value * scale;
    }
  };
  put(root, 0, 0, root.value ? width / root.value : 0);
  return found;
}

export function flameTab(job) {
  const slowest = job.bottlenecks?.[0]?.vertex; // who comes here wants to know why the job is slow
  const vertex = el("select", { "aria-label": "Vertex" }, job.graph.vertices.map((info) => el("option", { value: job.vertex_ids[info.id], selected: info.id === slowest }, info.name)));
  const subtask = el("select", { "aria-label": "Subtask" });
  const type = el("select", { "aria-label": "Samples" }, TYPES.map(([value, text]) => el("option", { value }, text)));
  const search = el("input", { type: "search", class: "filter", placeholder: "Search", "aria-label": "Search" });
  const all = el("button", { type: "button", hidden: true, onclick: () => zoom(null) }, "Whole graph");
  const said = el("p", { class: "empty", role: "status" }, "Sampling …");
  const root = svg("svg", { class: "flame", role: "img", "aria-label": "Flame graph", width: "100%" });
  const about = el("p", { class: "legend frame" }, "");
  let data = null;
  let unfolded = false; // whether the trunk is shown frame by frame
  let path = []; // names from the root to the frame that takes the whole width
  let asked = -Infinity;
  let taken = 0;
  let running = true;
  let number = 0;
  root.style.display = "none";

  function widths() {
    const info = job.graph.vertices.find((each) => job.vertex_ids[each.id] === vertex.value);
    subtask.replaceChildren(el("option", { value: "" }, "all subtasks"), ...Array.from({ length: info.parallelism }, (_, place) => el("option", { value: place }, `subtask ${place}`)));
  }
  widths();

  async function again() {
    data = null;
    path = [];
    asked = -Infinity;
    say("Sampling …");
    draw();
    await ask(taken);
  }
  vertex.addEventListener("change", () => {
    widths();
    again();
  });
  for (const list of [subtask, type]) list.addEventListener("change", again);
  search.addEventListener("input", () => draw());

  function zoom(names) {
    path = names || [];
    draw();
  }

  function draw() {
    all.hidden = !path.length;
    root.style.display = data ? "" : "none";
    if (!data) return root.replaceChildren();
    let top = data;
    const above = [];
    for (const name of path) {
      const next = (top.children || []).find((child) => child.name === name);
      if (!next) break;
      above.push(top);
      top = next;
    }
    const width = Math.max(280, root.parentNode?.clientWidth - 26 || 1100);
    const own = ownFrames(data);
    const trunk = path.length || unfolded ? [] : trunkOf(data, own);
    const folds = trunk.length > FOLDED;
    const first = folds ? trunk.at(-1) : top;
    const bars = barsOf(first, width).map((bar) => ({ ...bar, row: bar.row + (folds ? 1 : above.length), fold: folds && bar.frame === first }));
    const rows = [...(folds ? [data] : above).map((frame, row) => ({ frame, x: 0, row, wide: width, outer: !folds })), ...bars];
    const wanted = search.value.toLowerCase();
    const fits = (frame) => wanted && frame.name.toLowerCase().includes(wanted);
    const height = ROW * (1 + Math.max(0, ...rows.map((bar) => bar.row)));
    root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const parents = new Map();
    const walk = (frame, names) => {
      parents.set(frame, names);
      (frame.children || []).forEach((child) => walk(child, [...names, child.name]));
    };
    walk(data, []);
    root.replaceChildren(...rows.map((bar) => {
      const { frame, x, row, wide } = bar;
      const kind = fits(frame) ? "found" : frame === data ? "all" : own.has(frame) ? "own" : "user";
      const name = bar.fold ? `${trunk.length} frames of Funken, down to ${frame.name}` : frame.name;
      const text = `${name}: ${percent(frame.value / data.value)}, ${frame.value} of ${data.value} samples`;
      const letters = Math.floor((wide - 8) / LETTER);
      const shown = letters < 3 ? "" : name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
      const node = svg("g", { class: `frame ${kind}${bar.outer ? " outer" : ""}`, tabindex: 0, role: "button", "aria-label": text }, svg("title", {}, text),
        svg("rect", { x, y: row * ROW, width: Math.max(0.5, wide - 1), height: ROW - 1, rx: 2 }), shown ? svg("text", { x: x + 4, y: row * ROW + 13 }, shown) : null);
      const choose = () => {
        unfolded = unfolded || bar.fold || frame === data;
        zoom(bar.fold ? null : parents.get(frame));
      };
      node.addEventListener("click", choose);
      node.addEventListener("keydown", (event) => event.key === "Enter" && choose());
      node.addEventListener("pointerenter", () => setText(about, text));
      return node;
    }));
    const share = shareOf(data, fits);
    setText(about, wanted ? `${percent(share)} of the samples have “${search.value}” in a function.` : "");
  }

  function say(text) {
    setText(said, text);
    said.hidden = !text;
  }

  // Ask for the newest samples; they are taken anew by asking.
  async function ask(now) {
    if (now - asked < AGAIN_MS) return;
    asked = now;
    number += 1;
    const mine = number;
    const query = new URLSearchParams({ type: type.value });
    if (subtask.value) query.set("subtaskindex", subtask.value);
    let found;
    try {
      found = await api(`${jobPath(job.id)}/vertices/${vertex.value}/flamegraph?${query}`);
    } catch (error) {
      if (!(error instanceof ApiError) || !error.status || error.status === 401) throw error;
      if (mine === number) say(error.message);
      return;
    }
    if (mine !== number) return;
    if (!found.data && !data) say(WITHOUT[found.endTimestamp] || (running ? "Sampling …" : "No task runs."));
    if (!found.data) return;
    data = found.data;
    draw();
    say(data.value ? `${data.value} samples, until ${moment(found.endTimestamp)}.` : "No samples of this kind.");
  }

  return {
    node: el("section", { class: "panel", id: "flame" }, el("div", { class: "choices" }, vertex, subtask, type, search, all), said, root, about,
      el("p", { class: "legend" }, ...[["user", "functions of the program and its libraries"], ["own", "Funken"], ["found", "found by the search"]].map(([kind, text]) => el("span", {}, el("i", { class: `f-${kind}` }), text)))),
    async update(current) {
      taken = current.taken;
      running = current.vertices.some((each) => each.subtasks.some(({ state }) => state === "RUNNING"));
      await ask(taken);
    },
  };
}

// The share of the samples in which a frame fits.
export function shareOf(root, fits) {
  const count = (frame) => (fits(frame) ? frame.value : (frame.children || []).reduce((total, child) => total + count(child), 0));
  return root.value ? count(root) / root.value : 0;
}
