// The page of one job: its head, its buttons, and a tab for each view.

import { actions } from "./actions.js";
import { ApiError, api, jobPath } from "./api.js";
import { el, setText, stateBadge } from "./dom.js";
import { count, duration, moment, rate } from "./format.js";
import { flameTab } from "./flame.js";
import { logsTab } from "./logs.js";
import { metricsTab } from "./metrics.js";
import { History, summarize } from "./model.js";
import { planTab } from "./plan.js";
import { checkpointsTab, configurationTab, exceptionsTab, graphTab } from "./tabs.js";
import { machinesTab, timelineTab } from "./timeline.js";

const TABS = [
  ["graph", "Graph", graphTab],
  ["plan", "Plan", planTab],
  ["metrics", "Metrics", metricsTab],
  ["checkpoints", "Checkpoints", checkpointsTab],
  ["exceptions", "Exceptions", exceptionsTab],
  ["logs", "Logs", logsTab],
  ["flame", "Flame graph", flameTab],
  ["timeline", "Time line", timelineTab],
  ["machines", "Machines", machinesTab],
  ["configuration", "Configuration", configurationTab],
];
const histories = new Map();

const NONE = "–"; // what formats say of what is not there

// What a job does that does not run yet, or not all of it.
function phaseOf(job) {
  const [said, ran] = [job.phase || job.state.toLowerCase(), job.state.toLowerCase()];
  return said === ran || /^running \((\d+) of \1 /.test(said) ? NONE : said;
}

// Why a job has failed for good, with the way to the traceback.
function showCause(node, job, id) {
  const failure = job.state === "FAILED" ? job.failures[0] : null;
  node.hidden = !failure;
  if (!failure || node.dataset.time === String(failure.time)) return;
  node.dataset.time = failure.time;
  const place = failure.operator ? ` in ${failure.operator}${failure.subtask == null ? "" : `, subtask ${failure.subtask}`}` : "";
  node.replaceChildren(el("b", {}, `Failed at ${moment(failure.time)}${place}. `), `${failure.error}: ${failure.message} `, el("a", { href: `#/jobs/${encodeURIComponent(id)}/exceptions` }, "Traceback"));
}

export function jobPage(id, name = "graph") {
  if (!histories.has(id)) histories.set(id, new History());
  const history = histories.get(id);
  const title = el("h1", {}, "Loading …");
  const badge = el("span");
  const facts = el("div", { class: "facts" });
  const values = ["Now", "Started", "Duration", "Ended", "Restarts", "Read", "Checkpoints", "Id"].map((label) => {
    const value = el("b");
    facts.append(el("span", { hidden: true }, `${label} `, value));
    return value;
  });
  const buttons = actions(id);
  buttons.update(null);
  const tabs = TABS.map(([key, text]) => el("a", { href: `#/jobs/${encodeURIComponent(id)}/${key}`, "aria-current": key === name ? "page" : null, "data-tab": key }, text));
  const cause = el("p", { class: "cause", role: "alert", hidden: true });
  const body = el("div", { id: "tab" });
  let tab = null;
  const whole = [
    el("div", { class: "head" }, title, badge, el("span", { class: "space" }), buttons.nodes),
    facts, cause, el("nav", { class: "tabs", "aria-label": "Views" }, tabs), body,
  ];
  const page = {
    title: "Job",
    node: el("div", { class: "job" }, whole),
    async refresh() {
      let job;
      try {
        job = await api(`${jobPath(id)}/snapshot`);
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 404) throw error;
        page.title = "No such job";
        page.node.replaceChildren(el("section", { class: "panel failed" }, el("h1", {}, "No such job"), el("p", {}, error.message), el("p", {}, el("a", { href: "#/" }, "All jobs of this driver"))));
        return;
      }
      if (!page.node.contains(body)) page.node.replaceChildren(...whole);
      page.node.dataset.state = job.state;
      const vertices = summarize(job);
      history.add(job, vertices);
      page.title = job.name;
      setText(title, job.name);
      if (badge.textContent !== job.state) badge.replaceChildren(stateBadge(job.state));
      buttons.update(job.state);
      showCause(cause, job, id);
      const newest = history.samples[history.samples.length - 1];
      const done = job.checkpoints;
      [phaseOf(job), moment(job.start_time), duration(job.duration), moment(job.end_time), count(job.restarts), rate(newest ? newest.read : 0),
        `${done.completed} completed, ${done.failed} failed`, id].forEach((text, number) => {
        setText(values[number], text);
        values[number].parentNode.hidden = text === NONE;
      });
      if (!tab) {
        tab = (TABS.find(([key]) => key === name) || TABS[0])[2](job);
        body.replaceChildren(tab.node);
      }
      await tab.update(job, vertices, history);
    },
  };
  return page;
}
