// The buttons that change a job: each asks first, and shows what came of it.

import { api, jobPath } from "./api.js";
import { el } from "./dom.js";

const POLL_MS = 400;
const POLL_TIMES = 1500;

export function notice(text) {
  document.getElementById("notice").textContent = text;
}

// Ask in a dialog; the answer is what its fields have, or null.
function ask(title, text, fields, action, danger) {
  const inputs = fields.map(([label, attributes]) => {
    const input = el("input", attributes);
    const checkbox = attributes.type === "checkbox";
    return { input, node: checkbox ? el("label", {}, input, ` ${label}`) : el("label", {}, label, input) };
  });
  return new Promise((resolve) => {
    const box = el("dialog", { "aria-label": title });
    let answer = null;
    const confirm = el("button", { type: "button", class: danger ? "danger" : null, id: "confirm", onclick: () => {
      answer = inputs.map(({ input }) => (input.type === "checkbox" ? input.checked : input.value.trim()));
      box.close();
    } }, action);
    box.append(
      el("h1", {}, title), el("p", {}, text), ...inputs.map(({ node }) => node),
      el("div", { class: "buttons" }, el("button", { type: "button", onclick: () => box.close() }, "Back"), confirm),
    );
    box.addEventListener("close", () => {
      box.remove();
      resolve(answer);
    });
    document.body.append(box);
    box.showModal();
  });
}

async function follow(id, trigger, what, path = "savepoints") {
  for (let turn = 0; turn < POLL_TIMES; turn += 1) {
    const { status, operation } = await api(`${jobPath(id)}/${path}/${trigger}`);
    if (status.id === "COMPLETED") {
      const cause = operation["failure-cause"];
      notice(cause ? `${what} has failed: ${cause["stack-trace"]}` : `${what} is complete: ${operation.location ?? `parallelism ${operation.parallelism}`}`);
      return;
    }
    notice(`${what} is in progress …`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  notice(`${what} is still in progress; its trigger id is ${trigger}.`);
}

async function attempt(what, run) {
  try {
    await run();
  } catch (error) {
    notice(`${what} was rejected: ${error.message}`);
  }
}

const FOLDER = ["Folder (empty: the configured one)", { type: "text", placeholder: "/savepoints or s3://…", id: "folder" }];

export function actions(id) {
  const name = () => document.querySelector("h1")?.textContent || id;

  async function savepoint() {
    const answer = await ask("Savepoint", `Save the state of “${name()}”? The job keeps running.`, [FOLDER], "Save");
    if (answer) {
      await attempt("Savepoint", async () => {
        const body = { "target-directory": answer[0] || null, "cancel-job": false };
        const begun = await api(`${jobPath(id)}/savepoints`, { method: "POST", body });
        await follow(id, begun["request-id"], "Savepoint");
      });
    }
  }

  async function stop() {
    const drain = ["Drain: fire all windows and event-time timers first. Not for a job that is to be resumed.", { type: "checkbox", id: "drain" }];
    const answer = await ask("Stop", `Save the state of “${name()}” and end it?`, [FOLDER, drain], "Stop", true);
    if (answer) {
      await attempt("Stop", async () => {
        const body = { targetDirectory: answer[0] || null, drain: answer[1] };
        const begun = await api(`${jobPath(id)}/stop`, { method: "POST", body });
        await follow(id, begun["request-id"], "Stop with savepoint");
      });
    }
  }

  async function rescale() {
    const field = ["Parallelism", { type: "number", min: 1, value: 2, id: "parallelism" }];
    const text = `Resume “${name()}” with another parallelism, from a checkpoint that is taken now?`;
    const answer = await ask("Rescale", text, [field], "Rescale");
    if (answer) {
      await attempt("Rescaling", async () => {
        const wanted = encodeURIComponent(answer[0]);
        const begun = await api(`${jobPath(id)}/rescaling?parallelism=${wanted}`, { method: "PATCH" });
        await follow(id, begun["request-id"], "Rescaling", "rescaling");
      });
    }
  }

  async function cancel() {
    const answer = await ask("Cancel", `Cancel “${name()}”? Its state is not saved.`, [], "Cancel the job", true);
    if (answer) {
      await attempt("Cancel", async () => {
        await api(`${jobPath(id)}?mode=cancel`, { method: "PATCH" });
        notice("The job is being cancelled.");
      });
    }
  }

  const buttons = [
    el("button", { type: "button", id: "savepoint", onclick: savepoint }, "Savepoint"),
    el("button", { type: "button", id: "stop", onclick: stop }, "Stop"),
    el("button", { type: "button", id: "rescale", onclick: rescale }, "Rescale"),
    el("button", { type: "button", id: "cancel", class: "danger", onclick: cancel }, "Cancel"),
  ];
  return {
    nodes: buttons,
    update(state) {
      const over = state === null || ["FINISHED", "FAILED", "CANCELED", "SUSPENDED"].includes(state);
      buttons.forEach((button) => { button.disabled = over || (state === "CANCELLING" && button.id !== "cancel"); });
    },
  };
}
