// What the tasks of a job have logged: fetched as it comes, chosen by level, vertex and subtask, newest at the end.

import { api, jobPath } from "./api.js";
import { el } from "./dom.js";
import { moment } from "./format.js";

const KEPT = 2000;
const PAGE = 1000;

export function logsTab(job) {
  const level = choice("Level", [["DEBUG", "all levels"], ["INFO", "info and above"], ["WARN", "warnings and errors"], ["ERROR", "errors"]]);
  const vertex = choice("Vertex", [["", "all vertices"], ...job.graph.vertices.map((info) => [job.vertex_ids[info.id], info.name])]);
  const widest = Math.max(...job.graph.vertices.map((info) => info.parallelism));
  const subtask = choice("Subtask", [["", "all subtasks"], ...Array.from({ length: widest }, (_, number) => [String(number), `subtask ${number}`])]);
  const search = el("input", { type: "search", class: "filter", placeholder: "Search", "aria-label": "Search" });
  const save = el("button", { type: "button", onclick: download }, "Download");
  const lines = el("div", { class: "log", id: "log", tabindex: 0, role: "log", "aria-label": "Log" });
  const none = el("p", { class: "empty" }, "Nothing was logged.");
  const note = el("p", { class: "empty", hidden: true });
  let next = null;
  let asked = 0;

  function choice(label, entries) {
    const list = el("select", { "aria-label": label }, entries.map(([value, text]) => el("option", { value }, text)));
    list.addEventListener("change", () => {
      next = null;
      show();
    });
    return list;
  }

  const fits = (line) => line.textContent.toLowerCase().includes(search.value.toLowerCase());
  search.addEventListener("input", () => {
    for (const line of lines.children) line.hidden = !fits(line);
  });

  function download() {
    const text = [...lines.children].filter((line) => !line.hidden).map((line) => [...line.children].map((part) => part.textContent).join(" ")).join("\n");
    const link = el("a", { href: URL.createObjectURL(new Blob([`${text}\n`], { type: "text/plain" })), download: `${job.name.replace(/[^\w.-]+/g, "-")}.log` });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  async function show() {
    asked += 1;
    const number = asked;
    const query = new URLSearchParams({ limit: PAGE, level: level.value });
    if (vertex.value) query.set("vertex", vertex.value);
    if (subtask.value) query.set("subtask", subtask.value);
    if (next !== null) query.set("after", next);
    const found = await api(`${jobPath(job.id)}/logs?${query}`);
    if (number !== asked) return;
    const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    const added = found.records.map(line);
    for (const each of added) each.hidden = !fits(each);
    if (next === null) lines.replaceChildren(...added);
    else lines.append(...added);
    while (lines.childElementCount > KEPT) lines.firstElementChild.remove();
    note.hidden = !found.lost;
    note.textContent = `${found.lost} records came too fast for this page; the file of the log has them.`;
    none.hidden = lines.childElementCount > 0;
    next = found.next;
    if (atEnd) lines.scrollTop = lines.scrollHeight;
  }

  return {
    node: el("section", { class: "panel" }, el("div", { class: "choices" }, level, vertex, subtask, search, save), note, lines, none),
    update: show,
  };
}

function line(entry) {
  const who = entry.operator || (entry.subtask >= 0 ? "task" : "driver");
  const place = entry.subtask >= 0 ? `${who} (${entry.subtask}) #${entry.attempt}` : who;
  return el("div", { class: `entry ${entry.level}`, title: entry.host ? `${entry.host}, process ${entry.pid}` : "the driver" },
    el("span", { class: "when" }, moment(entry.timestamp)), el("b", {}, entry.level), el("span", { class: "place" }, place),
    el("span", { class: "text" }, `${entry.logger}: ${entry.message}`));
}
