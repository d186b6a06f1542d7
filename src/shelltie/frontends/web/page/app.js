// Starts the page: the token, the stream, keys, themes, what the tab shows.

import { enter, listen } from "./connection.js";
import { $, h, holdable, setText } from "./dom.js";
import * as inbox from "./inbox.js";
import { notice } from "./notice.js";
import * as past from "./past.js";
import * as policy from "./policy.js";
import * as runs from "./runs.js";
import { questions, state, steers, take, who } from "./state.js";
import * as terminal from "./terminal.js";
import * as timeline from "./timeline.js";

const TICK = 250;
const THEME = "shelltie-theme";
const KEYS = [["j  k", "next and previous run"], ["/", "filter"], ["a", "allow once what is asked first, or is in focus"], ["d", "deny it"], ["x", "hold: end the selected run"], ["1 2 3 4", "live, history, timeline, policy"], ["Esc", "back"], ["?", "these keys"]];

let pending = false;
function schedule() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    inbox.render();
    runs.render();
    tab();
  });
}

function hear(message) {
  if (message.type === "rows") {
    take(message);
    schedule();
  } else if (message.type === "output") runs.takeOutput(message);
  else if (message.type === "tree") runs.takeTree(message);
  else if (message.type === "hello") {
    Object.assign(state, { role: message.role, stream: message.stream, host: message.host, allowInput: message.allowInput });
    setText($("host"), message.host);
    setText($("role"), message.role === "steer" ? "steering" : "view only");
    $("role").hidden = false;
    $("stop-all").hidden = message.role !== "steer";
    if (message.terminal && !terminal.terminal()) terminal.load().then(runs.redraw, () => notice("xterm.js did not load: output is shown as text.", "bad"));
    runs.follow();
  }
}

function tell(what) {
  state.connected = what === "live";
  document.body.dataset.connection = what;
  setText($("live").lastElementChild, what === "live" ? "live" : "reconnecting");
  if (what === "lost") notice("shelltie web does not answer. This is what was true last; it is tried again. If it has ended, start it again: shelltie web", "bad", true);
  if (what === "live") notice("");
  if (what === "shut out") shutOut();
  schedule();
}

function shutOut() {
  setText($("live").lastElementChild, "shut out");
  notice("This link does not work, or no longer. Open one that `shelltie web` prints in its terminal.", "bad", true);
}

// What the tab shows, and whether a person wants to be told

let told = new Set();

function tab() {
  const asked = questions();
  document.title = asked.length ? `(${asked.length}) shelltie` : "shelltie";
  badge(asked.length);
  $("notify").hidden = !("Notification" in window) || Notification.permission !== "default";
  for (const one of asked) {
    if (told.has(one.key) || !("Notification" in window) || Notification.permission !== "granted" || !document.hidden) continue;
    // No word of the command: a desktop shows it to whoever looks.
    new Notification("A command waits for your yes", { body: `${who(one)}: ${one.reasons[0]?.program ?? ""} (${one.rating})`, tag: one.key });
  }
  told = new Set(asked.map((one) => one.key));
}

let badged = null;
function badge(count) {
  if (badged === count) return;
  badged = count;
  const dot = count ? `<circle cx="23" cy="9" r="9" fill="#ff5a4f"/><text x="23" y="14" font-size="14" font-family="sans-serif" font-weight="700" text-anchor="middle" fill="#fff">${count > 9 ? "9" : count}</text>` : "";
  const image = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect y="4" width="28" height="28" rx="7" fill="#1f6feb"/><path d="M7 12l6 6-6 6M15 25h8" stroke="#fff" stroke-width="3" fill="none" stroke-linecap="round" stroke-linejoin="round"/>${dot}</svg>`;
  $("favicon").href = `data:image/svg+xml,${encodeURIComponent(image)}`;
}

// Views, themes, keys

export function show(view) {
  document.querySelector("main").dataset.view = view;
  document.body.classList.remove("opened");
  for (const button of document.querySelectorAll("#tabs button")) button.setAttribute("aria-pressed", String(button.dataset.view === view));
  if (view === "past") past.show();
  if (view === "lanes") timeline.show(openPast);
  if (view === "explain") policy.show();
}

function openPast(id, from) {
  show("past");
  past.open(id, from);
}

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
}

function help() {
  const dialog = $("help");
  if (dialog.open) {
    dialog.close();
    return;
  }
  dialog.replaceChildren(h("h2", {}, "Keys"), h("dl", { class: "keys" }, ...KEYS.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])), h("button", { onclick: () => dialog.close() }, "Close"));
  dialog.showModal();
}

const ACTIONS = {
  j: () => runs.move(1), k: () => runs.move(-1), ArrowDown: () => runs.move(1), ArrowUp: () => runs.move(-1),
  "/": () => $("filter").focus(), "?": help,
  a: () => steers() && inbox.current()?.allow(), d: () => steers() && inbox.current()?.deny(),
  x: () => runs.holdKill(),
  1: () => show("live"), 2: () => show("past"), 3: () => show("lanes"), 4: () => show("explain"),
};

function keys() {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      document.activeElement?.blur?.();
      document.body.classList.remove("opened");
    }
    const typing = event.target.closest?.("input, textarea, dialog") && !event.target.closest(".term:not(.typed)");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !ACTIONS[event.key]) return;
    if (event.repeat && !["j", "k", "ArrowDown", "ArrowUp"].includes(event.key)) return;
    if (event.key.startsWith("Arrow") && event.target.closest?.(".scroller")) return;
    event.preventDefault();
    ACTIONS[event.key]();
  });
  document.addEventListener("keyup", (event) => { if (event.key === "x") runs.releaseKill(); });
  window.addEventListener("blur", () => runs.releaseKill());
}

async function begin() {
  theme(localStorage.getItem(THEME));
  $("theme").addEventListener("click", () => {
    const dark = getComputedStyle(document.documentElement).colorScheme.startsWith("dark");
    theme(dark ? "light" : "dark");
    localStorage.setItem(THEME, dark ? "light" : "dark");
  });
  for (const button of document.querySelectorAll("#tabs button")) button.addEventListener("click", () => show(button.dataset.view));
  $("help-button").addEventListener("click", help);
  $("filter").addEventListener("input", schedule);
  $("notify").addEventListener("click", () => Notification.requestPermission().then(schedule));
  runs.onWhy((id) => openPast(id, null));
  holdable($("stop-all"), 1200, () => runs.act("/api/stop-all", {}, "Everything was ended"));
  keys();
  setInterval(() => { inbox.tick(); runs.tick(); }, TICK);
  schedule();
  try {
    if (await enter()) listen(hear, tell);
    else shutOut();
  } catch (error) {
    shutOut();
    notice(error.message, "bad", true);
  }
}

begin();
