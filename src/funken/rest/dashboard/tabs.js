// The views of a job. Each gives a node, and an update with a snapshot, the summaries of its vertices, and what was seen so far.

import { api, jobPath } from "./api.js";
import { checkpointTimeline } from "./charts.js";
import { el, setText, stateBadge, svg, table } from "./dom.js";
import { bytes, clock, count, duration, moment, percent, rate, several, watermark } from "./format.js";
import { graphView, roomForDrawings } from "./graph.js";
import { operatorRecords } from "./model.js";
import { tracebackView } from "./traceback.js";

export function graphTab(job) {
  let chosen = null;
  let last = null;
  const choose = (id) => {
    chosen = chosen === id ? null : id;
    show();
  };
  const graph = graphView(job, choose, roomForDrawings());
  const list = table(
    [
      ["Vertex", (vertex) => vertex.name, "text"],
      ["State", (vertex) => stateBadge(vertex.state)],
      ["Subtasks", (vertex) => vertex.parallelism, "number"],
      ["Records in", (vertex) => count(vertex.recordsIn), "number"],
      ["In", (vertex) => rate(vertex.inRate), "number"],
      ["Records out", (vertex) => count(vertex.recordsOut), "number"],
      ["Out", (vertex) => rate(vertex.outRate), "number"],
      ["Busy", (vertex) => percent(vertex.busy), "number"],
      ["Back-pressured", (vertex) => percent(vertex.pressed), "number"],
      ["Skew", (vertex) => (vertex.skew == null ? "–" : percent(vertex.skew)), "number"],
      ["Watermark", (vertex) => watermark(vertex.watermark), "number"],
      ["p99", (vertex) => duration(vertex.p99), "number"],
      ["Marker p99", (vertex) => duration(vertex.marker), "number marker"],
    ],
    { key: (vertex) => vertex.id, onchoose: (vertex) => choose(vertex.id) },
  );
  const heading = el("h2");
  const subtasks = table(
    [
      ["Subtask", (each) => each.subtask, "number"],
      ["State", (each) => stateBadge(each.state)],
      ["Attempt", (each) => each.attempt, "number"],
      ["Host", (each) => each.host || "–", "text"],
      ["Process", (each) => each.pid || "–", "number"],
      ["In", (each) => rate(each.metrics.records_in_per_second), "number"],
      ["Out", (each) => rate(each.metrics.records_out_per_second), "number"],
      ["Load", (each) => loadBar(each.metrics), "load"],
      ["Busy", (each) => percent(each.metrics.busy_ms_per_second / 1000), "number"],
      ["Back-pressured", (each) => percent(each.metrics.back_pressured_ms_per_second / 1000), "number"],
      ["Watermark", (each) => watermark(each.metrics.input_watermark ?? each.metrics.output_watermark), "number"],
      ["p50", (each) => duration(each.metrics.latency_p50), "number"],
      ["p99", (each) => duration(each.metrics.latency_p99), "number"],
      ["Failure", (each) => each.failure || "–", "text failure"],
    ],
    { key: (each) => each.subtask },
  );
  const operators = table(
    [
      ["Operator", (each) => each.name, "text"],
      ["Records in", (each) => count(each.recordsIn), "number"],
      ["In", (each) => rate(each.inRate), "number"],
      ["Records out", (each) => count(each.recordsOut), "number"],
      ["Out", (each) => rate(each.outRate), "number"],
    ],
    { key: (each) => each.id },
  );
  const uncounted = el("p", { class: "empty" }, "–: not counted. These operators run as one loop, which counts its two ends.");
  const chain = el("div", { id: "operators" }, el("h2", {}, "Operators"), operators.node, uncounted);
  const detail = el("section", { class: "panel", id: "subtasks", hidden: true }, heading, subtasks.node, chain);
  const waits = el("p", { class: "bottleneck", role: "status", hidden: true });
  const node = el("div", {}, waits, el("section", { class: "panel" }, graph.node), detail, el("section", { class: "panel", id: "vertices" }, list.node));

  function show() {
    if (!last) return;
    const [current, vertices] = last;
    const slow = [...bottleneckTexts(current), ...(current.stuck_checkpoints || [])];
    waits.hidden = !slow.length;
    setText(waits, slow.join("\n"));
    graph.update(current, vertices, chosen);
    list.update(vertices, chosen);
    list.node.classList.toggle("unmarked", vertices.every((each) => each.marker == null));
    const vertex = vertices.find((each) => each.id === chosen);
    detail.hidden = !vertex;
    if (vertex) {
      heading.textContent = vertex.name;
      subtasks.update(vertex.subtasks);
      subtasks.node.classList.toggle("whole", vertex.subtasks.every((each) => !each.failure));
      const info = current.graph.vertices.find((each) => each.id === vertex.number);
      chain.hidden = info.operators.length < 2;
      const counts = operatorRecords(info, vertex.subtasks);
      operators.update(counts);
      uncounted.hidden = counts.every((each) => each.recordsIn != null && each.recordsOut != null);
    }
  }
  return {
    node,
    update(current, vertices) {
      last = [current, vertices];
      show();
    },
  };
}

const LOAD = { width: 90, height: 10 };

// How a subtask spends its time, as a bar.
function loadBar(metrics) {
  const busy = Math.min(1, metrics.busy_ms_per_second / 1000);
  const pressed = Math.min(1 - busy, metrics.back_pressured_ms_per_second / 1000);
  const shares = [["busy", busy], ["pressed", pressed], ["idle", 1 - busy - pressed]];
  let at = 0;
  const about = `busy ${percent(busy)}, back-pressured ${percent(pressed)}, idle ${percent(1 - busy - pressed)}`;
  return svg("svg", { class: "loadbar", ...LOAD, viewBox: `0 0 ${LOAD.width} ${LOAD.height}`, preserveAspectRatio: "none", role: "img", "aria-label": about }, svg("title", {}, about), ...shares.map(([kind, share]) => {
    const bar = svg("rect", { class: `bar-${kind}`, x: at * LOAD.width, y: 0, width: share * LOAD.width, height: LOAD.height });
    at += share;
    return bar;
  }));
}

// Which vertices the job waits for, in words.
function bottleneckTexts(job) {
  return (job.bottlenecks || []).map((each) =>
    `${each.name} is the bottleneck: subtask ${each.subtask} is ${percent(each.busy)} busy; `
    + (each.between.length ? `input held back for ${percent(each.held_back)} of the time since ${clock(each.since)}` : `what is behind it waits since ${clock(each.since)}`));
}

const SUMMARY = [["Duration", "end_to_end_duration", duration], ["Size", "checkpointed_size", bytes]];
const QUANTILES = [["Least", "min"], ["Average", "avg"], ["p50", "p50"], ["p90", "p90"], ["p95", "p95"], ["p99", "p99"], ["Greatest", "max"]];

// Percentiles of the complete checkpoints, and how checkpoints are set up.
function checkpointSummary(job) {
  const quantiles = table([["", (row) => row.title, "text"], ...QUANTILES.map(([title, name]) => [title, (row) => row.values[name], "number"])], { key: (row) => row.title });
  const settings = table([["Option", (row) => row[0], "text"], ["Value", (row) => row[1], "text"]], { key: (row) => row[0] });
  let seen = null;
  return {
    node: el("details", { class: "panel", id: "summary" }, el("summary", {}, "Summary and configuration"), quantiles.node, el("h2", {}, "Configuration"), settings.node),
    async update(completed) {
      if (seen === completed) return;
      const [{ summary }, found] = await Promise.all([api(`${jobPath(job.id)}/checkpoints`), api(`${jobPath(job.id)}/checkpoints/config`)]);
      seen = completed;
      quantiles.update(SUMMARY.map(([title, name, format]) => ({ title, values: Object.fromEntries(QUANTILES.map(([, key]) => [key, format(summary[name][key])])) })));
      settings.update(Object.entries(found).filter(([, value]) => value != null && typeof value !== "object").map(([key, value]) => [key.replaceAll("_", " "), shownSetting(key, value)]));
    },
  };
}

function shownSetting(key, value) {
  if (typeof value !== "number") return String(value) || "–";
  if (value > 9e15) return "none";
  return /interval|timeout|pause/.test(key) ? duration(value) : String(value);
}

// For whom a checkpoint that is in progress waits: those that have not acknowledged it although everything before them has.
function waitsFor(job, checkpoint) {
  const names = new Map(job.graph.vertices.map(({ id, name }) => [id, name]));
  const subtasks = new Map();
  for (const [vertex, subtask] of checkpoint.held_up_by || []) subtasks.set(vertex, [...(subtasks.get(vertex) || []), subtask]);
  const places = [...subtasks].map(([vertex, which]) => `${names.get(vertex)}, ${which.length > 1 ? "subtasks" : "subtask"} ${several(which)}`);
  return places.length ? `waits for ${several(places, "; ")}` : "";
}

const FIRST = 25; // checkpoints that are listed unasked

export function checkpointsTab(job) {
  let chosen = null;
  const timeline = checkpointTimeline((id) => choose(id));
  const list = table(
    [
      ["Id", (each) => each.id, "number"],
      ["Kind", (each) => each.kind],
      ["Status", (each) => stateBadge(each.status === "COMPLETED" && each.discarded ? "SUBSUMED" : each.status)],
      ["Triggered", (each) => moment(each.triggered)],
      ["Duration", (each) => duration((each.ended ?? current.taken) - each.triggered), "number"],
      ["Size", (each) => (each.status === "COMPLETED" ? bytes(each.size) : "–"), "number"],
      ["Acknowledged", (each) => `${each.acknowledged} of ${each.tasks}`, "number"],
      ["Where, or why not", (each) => each.failure || (each.discarded ? "deleted: a newer one is complete" : each.ended == null ? waitsFor(current, each) : each.path), "text"],
    ],
    { key: (each) => each.id, onchoose: (each) => choose(each.id), empty: "No checkpoint yet." },
  );
  const heading = el("h2");
  const parts = table(
    [
      ["Vertex", (each) => each.name, "text"],
      ["Subtask", (each) => each.index, "number"],
      ["Status", (each) => each.status],
      ["End to end", (each) => duration(each.end_to_end_duration), "number"],
      ["Size", (each) => bytes(each.state_size), "number"],
      ["Start delay", (each) => duration(each.start_delay), "number"],
      ["Alignment", (each) => duration(each.alignment?.duration), "number"],
      ["Synchronous", (each) => duration(each.checkpoint?.sync), "number"],
      ["Asynchronous", (each) => duration(each.checkpoint?.async), "number"],
      ["Unaligned", (each) => (each.unaligned_checkpoint == null ? "–" : each.unaligned_checkpoint ? "yes" : "no")],
    ],
    { key: (each) => `${each.vertex}/${each.index}` },
  );
  const detail = el("section", { class: "panel", id: "checkpoint", hidden: true }, heading, parts.node);
  const totals = checkpointSummary(job);
  const facts = el("div", { class: "facts" });
  const more = el("button", { type: "button", hidden: true, onclick: () => {
    all = !all;
    show();
  } });
  let all = false;
  let current = job;

  async function choose(id) {
    chosen = chosen === id ? null : id;
    await show();
  }

  async function show() {
    const { history } = current.checkpoints;
    const found = history.find((each) => each.id === chosen);
    list.update(all ? history : history.filter((each, place) => place < FIRST || each === found), chosen);
    more.hidden = history.length <= FIRST;
    setText(more, all ? `Show the newest ${FIRST}` : `Show all ${history.length}`);
    detail.hidden = !found;
    if (!found) return;
    heading.textContent = `${found.kind} ${found.id}`;
    const rows = await Promise.all(current.graph.vertices.map(async (info) => {
      const vertex = current.vertex_ids[info.id];
      const answer = await api(`${jobPath(current.id)}/checkpoints/details/${found.id}/subtasks/${vertex}`);
      return answer.subtasks.map((each) => ({ ...each, vertex, name: info.name }));
    }));
    parts.update(rows.flat());
  }
  return {
    node: el("div", {}, facts, timeline.node, totals.node, detail, el("section", { class: "panel", id: "checkpoints" }, list.node, more)),
    async update(next) {
      current = next;
      const { completed, failed, in_progress: open, restores, restored } = next.checkpoints;
      facts.textContent = `${completed} completed, ${failed} failed, ${open} in progress, ${restores} restored` +
        (restored ? `; started from ${restored.kind} ${restored.id} (${restored.path})` : "");
      timeline.update(next.checkpoints.history, next.taken);
      await totals.update(completed);
      await show();
    },
  };
}

export function exceptionsTab() {
  const failures = el("div", { id: "failures" });
  const restarts = table(
    [
      ["Time", (each) => moment(each.time)],
      ["After attempt", (each) => each.attempt, "number"],
      ["Delay", (each) => duration(each.delay), "number"],
      ["Reason", (each) => each.reason, "text"],
    ],
    { key: (each) => `${each.time}/${each.attempt}`, empty: "It was never restarted." },
  );
  let shown = null;

  function entry(failure) {
    const place = [failure.operator && `operator ${failure.operator}`, failure.subtask != null && `subtask ${failure.subtask}`, failure.host, `attempt ${failure.attempt}`];
    return el("article", { class: "failure" },
      el("div", { class: "head" }, el("b", {}, failure.error), el("span", {}, moment(failure.time)), el("span", {}, place.filter(Boolean).join(", "))),
      el("p", {}, failure.message), failure.traceback ? tracebackView(failure.traceback) : null);
  }
  return {
    node: el("div", {}, el("section", { class: "panel" }, el("h2", {}, "Failures, newest first"), failures), el("section", { class: "panel" }, el("h2", {}, "Restarts"), restarts.node)),
    update(job) {
      const version = `${job.failure_count}/${job.failures.length}`;
      if (version !== shown) {
        shown = version;
        failures.replaceChildren(...(job.failures.length ? job.failures.map(entry) : [el("p", { class: "empty" }, "Nothing has failed.")]));
      }
      restarts.update(job.restart_history);
    },
  };
}

export function configurationTab() {
  const options = table([["Option", (each) => each[0], "text"], ["Value", (each) => each[1], "text"]], { key: (each) => each[0], empty: "Nothing was set, or nothing fits." });
  const filter = el("input", { type: "text", class: "filter", placeholder: "Filter", "aria-label": "Filter" });
  let known = [];
  const show = () => options.update(known.filter(([key, value]) => `${key} ${value}`.toLowerCase().includes(filter.value.toLowerCase())));
  filter.addEventListener("input", show);
  return {
    node: el("section", { class: "panel" }, el("h2", {}, "Options of the job"), filter, options.node),
    update(job) {
      known = Object.entries(job.configuration).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]).sort();
      show();
    },
  };
}
