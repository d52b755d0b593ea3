// A snapshot of a job, reduced to what pages show: one summary per vertex, and series over time for charts.

const LOW = 0.1;
const HIGH = 0.5;
const BUSY = 0.8;
const KEPT = 900; // samples that a page takes itself
const RELOAD_MS = 60000;

const sum = (values) => values.reduce((total, value) => total + value, 0);
const most = (values) => values.reduce((found, value) => (value != null && (found == null || value > found) ? value : found), null);
const least = (values) => values.reduce((found, value) => (value != null && (found == null || value < found) ? value : found), null);

export function summarize(job) {
  return job.graph.vertices.map((info, place) => {
    const vertex = job.vertices[place];
    const metrics = vertex.subtasks.map((subtask) => subtask.metrics);
    const of = (name) => metrics.map((each) => each[name]);
    const marks = metrics.map((each) => (each.input_watermark == null ? each.output_watermark : each.input_watermark));
    const running = vertex.state === "RUNNING";
    const busy = running ? most(of("busy_ms_per_second")) / 1000 : 0;
    const pressed = running ? most(of("back_pressured_ms_per_second")) / 1000 : 0;
    const mark = marks.some((each) => each == null) ? null : least(marks);
    return {
      id: job.vertex_ids[info.id],
      number: info.id,
      name: info.name,
      stage: info.stage,
      parallelism: info.parallelism,
      state: vertex.state,
      subtasks: vertex.subtasks,
      recordsIn: sum(of("records_in")),
      recordsOut: sum(of("records_out")),
      inRate: running ? sum(of("records_in_per_second")) : 0,
      outRate: running ? sum(of("records_out_per_second")) : 0,
      bytesOut: sum(of("bytes_out")),
      skew: skew(of("records_in")),
      busy,
      pressed,
      watermark: mark,
      lag: mark == null || mark > 9e15 ? null : job.taken - mark,
      p50: most(of("latency_p50")),
      p99: most(of("latency_p99")),
      marker: most(metrics.flatMap((each) => Object.values(each.markers).map((ages) => ages.p99))),
      level: level(vertex.state, busy, pressed),
    };
  });
}

// What each operator of a vertex has read and emitted: sums over its subtasks; null where it is not counted, or of an older driver.
export function operatorRecords(info, subtasks) {
  return info.operators.map((operator) => {
    const found = subtasks.map(({ metrics }) => metrics.operators?.[operator.id]);
    const total = (name) => (found.some((each) => each?.[name] == null) ? null : sum(found.map((each) => each[name])));
    return {
      id: operator.id,
      name: operator.name,
      recordsIn: total("records_in"),
      inRate: total("records_in_per_second"),
      recordsOut: total("records_out"),
      outRate: total("records_out_per_second"),
    };
  });
}

// By how much the subtask with the most records exceeds the average.
export function skew(records) {
  const total = sum(records);
  return records.length < 2 || !total ? null : Math.max(...records) / (total / records.length) - 1;
}

export function level(state, busy, pressed) {
  if (state === "FAILED") return "failed";
  if (state === "FINISHED") return "finished";
  if (pressed > HIGH) return "high";
  if (pressed > LOW) return "low";
  return busy > BUSY ? "busy" : "ok";
}

// The rate over an edge: known if one of its ends has no other edge there.
export function edgeRate(job, vertices, edge) {
  const one = (name, value) => job.graph.edges.filter((each) => each[name] === value).length === 1;
  const find = (number) => vertices.find((vertex) => vertex.number === number);
  if (one("target", edge.target)) return find(edge.target).inRate;
  if (one("source", edge.source)) return find(edge.source).outRate;
  return null;
}

const thousandth = (value) => (value == null ? null : value / 1000);

// A job over time: what the driver has kept, and once a second what was seen since this page was opened.
export class History {
  constructor() {
    this.samples = [];
    this.older = [];
    this.asked = -Infinity;
  }

  // Those of the newest so many ms, oldest first.
  during(span) {
    const first = this.samples.length ? this.samples[0].at : Infinity;
    const all = [...this.older.filter((sample) => sample.at < first), ...this.samples];
    return newest(all, span);
  }

  // Take what the driver has kept, now and then; a driver of another version, or an archive, may have nothing.
  async load(job, get) {
    if (job.taken - this.asked < RELOAD_MS) return;
    this.asked = job.taken;
    const kept = await get();
    const { fed, feeding } = ends(job);
    const ids = job.graph.vertices.map((info) => job.vertex_ids[info.id]);
    const of = (id, name, kind) => kept.vertices[id]?.[name]?.[kind];
    this.older = kept.times.map((at, place) => {
      const each = (numbers, name, kind) => numbers.map((number) => of(job.vertex_ids[number], name, kind)?.[place]);
      const all = job.graph.vertices.map((info) => info.id);
      const sinks = all.filter((number) => !feeding.has(number));
      return {
        at,
        read: sum(each(all.filter((number) => !fed.has(number)), "numRecordsInPerSecond", "sum").map((value) => value || 0)),
        rates: Object.fromEntries(ids.map((id) => [id, of(id, "numRecordsInPerSecond", "sum")?.[place]])),
        p50: most(each(sinks, "latencyP50", "max")),
        p99: most(each(sinks, "latencyP99", "max")),
        busy: thousandth(most(each(all, "busyTimeMsPerSecond", "max"))),
        pressed: thousandth(most(each(all, "backPressuredTimeMsPerSecond", "max"))),
      };
    });
  }

  add(job, vertices) {
    const last = this.samples[this.samples.length - 1];
    if (last && last.at >= job.taken) return;
    const { fed, feeding } = ends(job);
    const sinks = vertices.filter((vertex) => !feeding.has(vertex.number));
    this.samples.push({
      at: job.taken,
      read: sum(vertices.filter((vertex) => !fed.has(vertex.number)).map((vertex) => vertex.inRate)),
      rates: Object.fromEntries(vertices.map((vertex) => [vertex.id, vertex.inRate])),
      p50: most(sinks.map((vertex) => vertex.p50)),
      p99: most(sinks.map((vertex) => vertex.p99)),
      busy: most(vertices.map((vertex) => vertex.busy)),
      pressed: most(vertices.map((vertex) => vertex.pressed)),
    });
    if (this.samples.length > KEPT) this.samples.shift();
  }
}

const ends = (job) => ({ fed: new Set(job.graph.edges.map((edge) => edge.target)), feeding: new Set(job.graph.edges.map((edge) => edge.source)) });

// The samples of the newest so many ms.
export function newest(samples, span) {
  const until = samples.length ? samples[samples.length - 1].at : 0;
  return samples.filter((sample) => sample.at > until - span);
}
