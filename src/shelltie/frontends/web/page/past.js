// History: search over past commands, and why each of them ended as it did.

import { get } from "./connection.js";
import { $, h } from "./dom.js";
import { home, size, span, timeOfDay, when } from "./format.js";
import { visible } from "./output.js";
import { replay, stopReplay } from "./replay.js";
import { trialBox } from "./trial.js";

const WAITED = { input: "for somebody to type", password: "for a password" };

export function show() {
  const parent = $("past");
  if (parent.firstChild) return search();
  const text = h("input", { type: "search", id: "past-text", placeholder: "Search commands", "aria-label": "Search commands", autocomplete: "off", spellcheck: "false" });
  const client = h("input", { type: "search", id: "past-client", placeholder: "Agent", "aria-label": "Agent", autocomplete: "off", spellcheck: "false" });
  const only = h("select", { id: "past-only", "aria-label": "Which" }, h("option", { value: "" }, "all"), h("option", { value: "failed" }, "failed or ended"), h("option", { value: "refused" }, "refused"));
  for (const input of [text, client, only]) input.addEventListener("input", search);
  parent.append(h("div", { class: "head" }, h("h2", {}, "History"), text, client, only), h("div", { id: "past-rows", class: "past-rows" }), h("div", { id: "past-one", class: "past-one" }));
  return search();
}

export function mood(one) {
  if (one.running) return "runs";
  if (one.well) return "well";
  return one.state === "finished" ? "failed" : "cut";
}

let asked = 0;
async function search() {
  const mine = ++asked;
  const wanted = new URLSearchParams({ text: $("past-text").value, client: $("past-client").value, only: $("past-only").value, count: "200" });
  try {
    const { runs } = await get(`/api/history?${wanted}`);
    if (mine !== asked) return;
    const rows = runs.map((one) => h("button", { class: "past-row", data: { mood: mood(one), run: one.runId }, onclick: () => open(one.runId) },
      h("i", { class: "dot" }), h("div", { class: "row-text" }, h("code", { class: "what" }, one.command), h("div", { class: "row-meta" }, h("span", { class: "dim" }, one.client || "–"), h("span", { class: "end" }, one.running ? "runs" : one.ending))),
      h("div", { class: "past-when dim num" }, h("div", {}, when(one.began)), h("div", {}, one.durationSec === null ? "" : span(one.durationSec)))));
    $("past-rows").replaceChildren(...(rows.length ? rows : [h("p", { class: "empty" }, "Nothing on record matches.")]));
    mark();
  } catch (error) {
    if (mine === asked) $("past-rows").replaceChildren(h("p", { class: "empty" }, error.message));
  }
}

let chosen = null;
function mark() {
  for (const row of document.querySelectorAll(".past-row")) row.classList.toggle("chosen", row.dataset.run === chosen);
}

// Everything about one run; from a second on it is replayed.
export async function open(id, from = null) {
  chosen = id;
  mark();
  stopReplay();
  const place = $("past-one");
  try {
    const one = await get(`/api/history/${encodeURIComponent(id)}`);
    if (chosen !== id) return;
    place.replaceChildren(...about(one, place));
    if (from !== null && one.output) play(one, place, from);
  } catch (error) {
    place.replaceChildren(h("p", { class: "empty" }, error.message));
  }
}

function play(one, place, from) {
  const printed = place.querySelector(".printed");
  printed.replaceChildren();
  replay(one, printed, from);
}

function about(one, place) {
  const known = one.known;
  const took = one.durationSec === null ? "" : ` after ${span(one.durationSec)}`;
  const facts = [["why", one.reason || known.stopReason || known.error], ["waited", WAITED[known.waitedFor]], ["usual", usual(one.usual)], ["try", longer(one.longer)], ["in", home(one.cwd)], ["client", [one.client, known.agent].filter(Boolean).join(" · ")], ["began", when(one.began)], ["verdict", known.verdict], ["because", (known.why ?? []).join("; ")],
    ["decision", known.decision && known.decision + (known.approvedBy ? `, approved by ${known.approvedBy}` : "")], ["limits", known.limits && `total ${span(known.limits.total)}, silence ${span(known.limits.silence)} (${known.limits.source.split(", pattern ")[0]})`], ["on trial", one.trial]];
  const lines = one.output.split("\n");
  const last = lines.slice(-200).join("\n");
  return [
    h("h3", {}, h("code", { class: "what" }, one.command)),
    h("p", { class: "why", data: { mood: mood(one) } }, one.running ? "It runs." : `${one.ending}${took}.`.replace(/^./, (first) => first.toUpperCase())),
    h("dl", { class: "facts" }, ...facts.filter(([, text]) => text).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, String(text))])),
    ...(known.warnings ?? []).map((text) => h("p", { class: "doubt" }, `⚠ ${text}`)),
    tree(known.tree),
    known.trial ? trialBox(known.trial) : null,
    h("ol", { class: "steps" }, ...one.steps.map((step) => h("li", {}, h("span", { class: "dim num" }, timeOfDay(step.at)), " ", step.kind.replaceAll("_", " ")))),
    one.output && !one.running ? h("button", { class: "play", onclick: () => play(one, place, 0) }, "▶ Replay") : null,
    h("div", { class: "printed" }, one.problem ? h("p", { class: "dim" }, one.problem) : h("pre", { class: "output", tabindex: "0" }, last ? visible(last) : "It printed nothing."),
      lines.length > 200 ? h("p", { class: "dim" }, `The last 200 of ${lines.length} lines (${size(one.output.length)}).`) : null),
  ].filter(Boolean);
}

function usual(known) {
  if (!known) return "";
  return `of ${known.n} such ${known.n === 1 ? "command" : "commands"} here half took ${span(known.p50)}, 95 % ${span(known.p95)}, the longest ${span(known.longest)}`;
}

function longer(limit) {
  return limit ? `a ${limit.limit} limit of ${span(limit.seconds)}` : "";
}

function tree(processes) {
  if (!processes?.length) return null;
  const depth = new Map();
  return h("div", { class: "tree", "aria-label": "Processes at its end" }, h("p", { class: "dim small" }, "Its processes when it was ended"), ...processes.map((one) => {
    const level = depth.has(one.parent) ? depth.get(one.parent) + 1 : 0;
    depth.set(one.pid, level);
    const node = h("div", { class: "process" }, h("code", {}, visible(one.name)), h("span", { class: "dim num" }, String(one.pid)), h("span", { class: "num busy" }, `${one.cpu.toFixed(1)} s CPU`));
    node.style.paddingInlineStart = `${level * 1.1}rem`;
    return node;
  }));
}
