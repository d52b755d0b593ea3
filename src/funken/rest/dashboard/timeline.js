// When subtasks came to their states in the current attempt, and on which machines they run.

import { widthOf } from "./charts.js";
import { el, setText, svg, table } from "./dom.js";
import { bytes, clock, count, duration, percent, rate, several } from "./format.js";

const STATES = ["CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING"];
const ROW = 22;
const LEFT = 200; // of the names, on a wide page
const WIDTH = 1160;
const LETTER = 7;
const ENDED = ["FAILED", "FINISHED", "CANCELED"];
const LITTLE = 0.1; // a start that takes less of the time is shown by itself

export function timelineTab() {
  const root = svg("svg", { class: "timeline", role: "img", "aria-label": "Time line" });
  const span = el("select", { "aria-label": "Span" }, el("option", { value: "" }, "all of it"), el("option", { value: "start" }, "the start"));
  span.addEventListener("change", () => {
    chosen = true;
    drawn = null;
    if (last) update(last);
  });
  const legend = el("p", { class: "legend" }, STATES.map((state) => el("span", {}, el("i", { class: `t-${state}` }), state.toLowerCase())));
  let drawn = null;
  let last = null;
  let chosen = false;

  function update(job) {
    last = job;
    const rows = job.graph.vertices.map((info, place) => ({ name: info.name, subtasks: job.vertices[place].subtasks }));
    const times = rows.flatMap((row) => row.subtasks.flatMap((each) => Object.values(each.timestamps)));
    if (!times.length) return;
    const begin = Math.min(...times);
    const now = Math.max(job.taken, begin + 1);
    const settled = begin + Math.max(1000, (Math.max(...times) - begin) * 1.25);
    if (!chosen) span.value = !ENDED.includes(job.state) && settled - begin < LITTLE * (now - begin) ? "start" : "";
    const until = span.value ? Math.min(settled, now) : now;
    const height = rows.length * ROW + 26;
    root.setAttribute("height", height);
    const width = widthOf(root, WIDTH);
    const left = Math.min(LEFT, Math.round(width * 0.3));
    const x = (at) => left + ((Math.min(at, until) - begin) / (until - begin)) * (width - left - 10);
    if (drawn === job.taken) return;
    drawn = job.taken;
    root.replaceChildren(
      ...rows.flatMap((row, place) => bars(row, place * ROW + 4, x, until, Math.floor(left / LETTER))),
      svg("text", { class: "faint", x: left, y: height - 6 }, clock(begin)),
      svg("text", { class: "faint", x: width - 10, y: height - 6, "text-anchor": "end" }, clock(until)));
  }
  return { node: el("section", { class: "panel" }, el("h2", {}, "States of the current attempt, first subtask to last"), el("div", { class: "choices" }, span), legend, root), update };
}

// A row of a vertex: a thin line per subtask, with a bar for each of its states.
function bars(row, y, x, until, letters) {
  const found = [svg("text", { x: 0, y: y + 13 }, row.name.length > letters ? `${row.name.slice(0, letters - 1)}…` : row.name, svg("title", {}, row.name))];
  const high = Math.max(2, (ROW - 6) / Math.max(1, row.subtasks.length));
  row.subtasks.forEach((subtask, number) => {
    const reached = Object.entries(subtask.timestamps).sort((a, b) => a[1] - b[1]);
    reached.forEach(([state, at], place) => {
      const end = place + 1 < reached.length ? reached[place + 1][1] : STATES.includes(state) ? until : at;
      const about = `${row.name}, subtask ${subtask.subtask}: ${state.toLowerCase()} at ${clock(at)}, ${duration(end - at)}`;
      found.push(svg("rect", { class: `t-${state}`, x: x(at), y: y + number * high, width: Math.max(1, x(end) - x(at)), height: high - 0.5 }, svg("title", {}, about)));
    });
  });
  return found;
}

export function machinesTab() {
  const facts = el("div", { class: "facts" });
  const list = table(
    [
      ["Machine", (each) => each.host, "text"],
      ["Process", (each) => each.pid, "number"],
      ["Subtasks", (each) => each.subtasks, "number"],
      ["Running", (each) => each.running, "number"],
      ["In", (each) => rate(each.inRate), "number"],
      ["Out", (each) => rate(each.outRate), "number"],
      ["Records in", (each) => count(each.recordsIn), "number"],
      ["Sent", (each) => bytes(each.bytesOut), "number"],
      ["Busiest subtask", (each) => percent(each.busy), "number"],
      ["Vertices", (each) => several(each.vertices), "text"],
    ],
    { key: (each) => `${each.host}/${each.pid}`, empty: "No task runs on a machine now." },
  );
  return {
    node: el("section", { class: "panel", id: "machines" }, el("h2", {}, "Processes that run tasks"), facts, list.node),
    update(job) {
      const machines = machinesOf(job);
      setText(facts, machines.length ? `Machines: ${new Set(machines.map((each) => each.host)).size}. Processes: ${machines.length}.` : "");
      list.update(machines);
    },
  };
}

// Processes with what runs in them.
export function machinesOf(job) {
  const found = new Map();
  job.vertices.forEach((vertex) => vertex.subtasks.forEach((subtask) => {
    if (!subtask.host) return;
    const key = `${subtask.host}/${subtask.pid}`;
    if (!found.has(key)) found.set(key, { host: subtask.host, pid: subtask.pid, subtasks: 0, running: 0, inRate: 0, outRate: 0, recordsIn: 0, bytesOut: 0, busy: 0, vertices: [] });
    const entry = found.get(key);
    entry.subtasks += 1;
    entry.running += subtask.state === "RUNNING" ? 1 : 0;
    entry.inRate += subtask.metrics.records_in_per_second || 0;
    entry.outRate += subtask.metrics.records_out_per_second || 0;
    entry.recordsIn += subtask.metrics.records_in || 0;
    entry.bytesOut += subtask.metrics.bytes_out || 0;
    entry.busy = Math.max(entry.busy, (subtask.metrics.busy_ms_per_second || 0) / 1000);
    if (!entry.vertices.includes(vertex.name)) entry.vertices.push(vertex.name);
  }));
  return [...found.values()].sort((a, b) => a.host.localeCompare(b.host) || a.pid - b.pid);
}
