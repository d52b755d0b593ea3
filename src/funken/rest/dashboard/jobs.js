// The page of all jobs.

import { api } from "./api.js";
import { el, stateBadge, table } from "./dom.js";
import { duration, moment } from "./format.js";

export function jobsPage() {
  const found = table(
    [
      ["Job", (job) => el("a", { href: `#/jobs/${encodeURIComponent(job.jid)}` }, job.name), "text"],
      ["State", (job) => stateBadge(job.state)],
      ["Started", (job) => moment(job["start-time"])],
      ["Duration", (job) => duration(job.duration), "number"],
      ["Ended", (job) => moment(job["end-time"])],
      ["Tasks running", (job) => `${job.tasks.running} of ${job.tasks.total}`, "number"],
      ["Id", (job) => job.jid, "text"],
    ],
    { key: (job) => job.jid, empty: "This driver has no jobs yet.", onchoose: (job) => { location.hash = `#/jobs/${encodeURIComponent(job.jid)}`; } },
  );
  return {
    title: "Jobs",
    node: el("div", {}, el("h1", {}, "Jobs"), el("section", { class: "panel" }, found.node)),
    async refresh() {
      const { jobs } = await api("/jobs/overview");
      found.update(jobs.sort((a, b) => b["start-time"] - a["start-time"]));
    },
  };
}
