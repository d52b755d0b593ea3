// Metrics over time: the charts of every job, and one of any metric on demand.

import { api, jobPath } from "./api.js";
import { lineChart } from "./charts.js";
import { el } from "./dom.js";
import { count, duration, percent, rate } from "./format.js";
import { newest } from "./model.js";

const SERIES = 6;
const MINUTE = 60000;
const SPANS = [["5 minutes", 5 * MINUTE], ["15 minutes", 15 * MINUTE], ["hour", 60 * MINUTE]];
const NONE = { times: [], vertices: {}, job: {} };

// What the driver has kept; a driver that has nothing answers 404.
async function kept(job, query) {
  try {
    return await api(`${jobPath(job.id)}/history?${new URLSearchParams(query)}`);
  } catch (error) {
    if (error.status === 404) return NONE;
    throw error;
  }
}

// The vertices with the busiest subtasks, as many as there are colours, in the order of the graph.
function busiest(job) {
  const busy = job.vertices.map((vertex) => Math.max(...vertex.subtasks.map(({ metrics }) => metrics.busy_ms_per_second)));
  const chosen = new Set(busy.map((share, place) => [share, place]).sort(([one], [other]) => other - one).slice(0, SERIES).map(([, place]) => place));
  return job.graph.vertices.filter((_, place) => chosen.has(place));
}

export function metricsTab(job) {
  const names = busiest(job).map((info) => [info.name, (sample) => sample.rates[job.vertex_ids[info.id]]]);
  const more = job.graph.vertices.length - names.length;
  const charts = [
    lineChart(more > 0 ? `Records in, by vertex (the busiest ${SERIES} of ${SERIES + more})` : "Records in, by vertex", names, rate),
    lineChart("Latency at the end of the job", [["p50", (sample) => sample.p50], ["p99", (sample) => sample.p99]], duration),
    lineChart("Records read by sources", [["read", (sample) => sample.read]], rate),
    lineChart("Most busy and most back-pressured subtask", [["busy", (sample) => sample.busy], ["back-pressured", (sample) => sample.pressed]], percent, 1),
  ];
  const span = el("select", { "aria-label": "Span" }, SPANS.map(([text, ms]) => el("option", { value: ms, selected: ms === 15 * MINUTE }, `last ${text}`)));
  const chosen = metricChooser(job, span);
  let last = null;
  const show = () => last && charts.forEach((chart) => chart.update(last.during(Number(span.value))));
  span.addEventListener("change", () => {
    show();
    chosen.show();
  });
  return {
    node: el("div", {}, chosen.choices, el("div", { class: "charts" }, chosen.charts, charts.map((chart) => chart.node))),
    async update(current, vertices, history) {
      last = history;
      await history.load(current, () => kept(current, {}));
      show();
      await chosen.update(current.taken);
    },
  };
}

const POINTS = 720;

// A chart of any metric of a vertex: the least, the average and the greatest of its subtasks, or their sum.
function metricChooser(job, span) {
  const vertex = el("select", { "aria-label": "Vertex" }, job.graph.vertices.map((info) => el("option", { value: job.vertex_ids[info.id] }, info.name)));
  const metric = el("select", { "aria-label": "Metric" });
  const charts = el("div", { class: "charts chosen" });
  const add = el("button", { type: "button", onclick: () => open(vertex.value, metric.value) }, "Add a chart");
  const shown = [];
  const path = (id) => `${jobPath(job.id)}/vertices/${id}/subtasks/metrics`;
  const infoOf = (id) => job.graph.vertices.find((info) => job.vertex_ids[info.id] === id);

  async function names() {
    const found = await api(path(vertex.value));
    metric.replaceChildren(...found.map(({ id }) => id).sort().map((id) => el("option", { value: id }, id)));
  }
  vertex.addEventListener("change", names);

  async function open(id, name) {
    const key = `${id}/${name}`;
    if (!name || shown.some((each) => each.key === key)) return;
    const { name: title, parallelism } = infoOf(id);
    const text = `${name}, ${title}`;
    const several = [["least", (sample) => sample.min], ["average", (sample) => (sample.sum == null ? null : sample.sum / parallelism)], ["greatest", (sample) => sample.max], ["sum", (sample) => sample.sum]];
    const chart = lineChart(text, parallelism === 1 ? [["value", (sample) => sample.sum]] : several, count);
    const close = el("button", { type: "button", class: "close", title: "Remove", "aria-label": `Remove ${text}`, onclick: () => {
      chart.node.remove();
      shown.splice(shown.findIndex((each) => each.key === key), 1);
    } }, "×");
    chart.node.prepend(close);
    charts.append(chart.node);
    const entry = { key, id, name, chart, samples: [] };
    shown.push(entry);
    const { times, vertices } = await kept(job, { vertex: id, get: name, points: POINTS });
    const found = vertices[id]?.[name];
    const older = found ? times.map((at, place) => ({ at, sum: found.sum[place], min: found.min[place], max: found.max[place] })) : [];
    const first = entry.samples.length ? entry.samples[0].at : Infinity;
    entry.samples = [...older.filter((sample) => sample.at < first), ...entry.samples];
    show();
  }

  function show() {
    shown.forEach((each) => each.chart.update(newest(each.samples, Number(span.value))));
  }
  return {
    choices: el("section", { class: "panel" }, el("div", { class: "choices" }, span, vertex, metric, add)),
    charts,
    show,
    async update(taken) {
      if (!metric.childElementCount) await names();
      await Promise.all(shown.map(async (each) => {
        const [found] = await api(`${path(each.id)}?get=${encodeURIComponent(each.name)}&agg=min,max,sum`);
        const last = each.samples[each.samples.length - 1];
        if (found && (!last || last.at < taken)) each.samples.push({ at: taken, sum: found.sum, min: found.min, max: found.max });
        each.samples = newest(each.samples, 60 * MINUTE);
      }));
      show();
    },
  };
}
