// The dashboard: which page is shown, and when it is refreshed.

import { ApiError, setToken } from "./api.js";
import { notice } from "./actions.js";
import { el } from "./dom.js";
import { clock } from "./format.js";
import { jobPage } from "./job.js";
import { jobsPage } from "./jobs.js";

const REFRESH_MS = 1000;
const THEME = "funken-theme";

const content = document.getElementById("content");
const place = document.getElementById("path");
const connection = document.getElementById("connection");
let page = null;
let timer = null;
let answered = null;

function open() {
  const [, kind, id, tab] = location.hash.split("/");
  notice("");
  page = kind === "jobs" && id ? jobPage(decodeURIComponent(id), tab) : jobsPage();
  content.replaceChildren(page.node);
  refresh();
}

async function refresh() {
  clearTimeout(timer);
  const shown = page;
  try {
    await shown.refresh();
    lost(null);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) return askForToken();
    lost(error);
  } finally {
    if (shown === page) {
      place.textContent = shown.title === "Jobs" ? "" : `› ${shown.title}`;
      document.title = `${shown.title} – Funken`;
      timer = setTimeout(refresh, document.hidden ? 10 * REFRESH_MS : REFRESH_MS);
    }
  }
}

// Mark the page as old if the driver does not answer, with the time of its last answer.
function lost(error) {
  if (!error) answered = Date.now();
  connection.textContent = error ? error.message + (answered ? ` Last answer: ${clock(answered)}.` : "") : "";
  document.body.classList.toggle("lost", error !== null);
}

function askForToken() {
  clearTimeout(timer);
  page = { title: "Token", refresh: async () => {} };
  const input = el("input", { type: "password", id: "token", autocomplete: "off", "aria-label": "Token", class: "filter" });
  const enter = () => {
    setToken(input.value.trim());
    open();
  };
  input.addEventListener("keydown", (event) => event.key === "Enter" && enter());
  content.replaceChildren(el("section", { class: "panel" }, el("h1", {}, "This server needs a token"), el("p", {}, "It is in the file that rest.authentication.token-file names. It is kept for this tab."), el("div", { class: "choices" }, input, el("button", { type: "button", onclick: enter }, "Enter"))));
}

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
}

document.getElementById("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const next = dark === "dark" ? "light" : "dark";
  localStorage.setItem(THEME, next);
  theme(next);
});
theme(localStorage.getItem(THEME));
addEventListener("hashchange", open);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
open();
