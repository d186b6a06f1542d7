// Afterwards: history with why each run ended, a timeline with a lane for each agent, and what would
// happen to a command.

import { get, post } from "./connection.js";
import { $, h } from "./dom.js";
import { home, size, span, timeOfDay, when } from "./format.js";
import { visible } from "./output.js";
import { now } from "./state.js";

const WINDOWS = [[600, "10 min"], [3600, "1 h"], [6 * 3600, "6 h"], [86400, "1 day"]];
const DECISIONS = { allow: "it runs", ask: "a person must say yes first", deny: "it is refused" };
let view = "live";
let length = 3600;

export function show(name) {
  view = name;
  if (name === "past") history();
  if (name === "lanes") lanes();
  if (name === "explain") explain();
}

function mood(one) {
  if (one.running) return "runs";
  if (one.well) return "well";
  return one.state === "finished" ? "failed" : "cut";
}

// History

function history() {
  const parent = $("past");
  if (parent.firstChild) return search();
  const text = h("input", { type: "search", id: "past-text", placeholder: "Search commands", "aria-label": "Search commands", autocomplete: "off", spellcheck: "false" });
  const only = h("select", { id: "past-only", "aria-label": "Which" }, h("option", { value: "" }, "all"), h("option", { value: "failed" }, "failed or ended"), h("option", { value: "refused" }, "refused"));
  for (const input of [text, only]) input.addEventListener("input", search);
  parent.append(h("div", { class: "head" }, h("h2", {}, "History"), text, only), h("div", { id: "past-rows", class: "past-rows" }), h("div", { id: "past-one", class: "past-one" }));
  return search();
}

let asked = 0;
async function search() {
  const mine = ++asked;
  const wanted = new URLSearchParams({ text: $("past-text").value, only: $("past-only").value, count: "200" });
  try {
    const { runs } = await get(`/api/history?${wanted}`);
    if (mine !== asked) return;
    const rows = runs.map((one) => h("button", { class: "past-row", data: { mood: mood(one) }, onclick: (event) => open(one.runId, event.currentTarget) },
      h("i", { class: "dot" }), h("div", { class: "row-text" }, h("code", { class: "what" }, one.command), h("div", { class: "row-meta" }, h("span", { class: "dim" }, one.client || "–"), h("span", { class: "end" }, one.running ? "runs" : one.ending))),
      h("div", { class: "past-when dim num" }, h("div", {}, when(one.began)), h("div", {}, one.durationSec === null ? "" : span(one.durationSec)))));
    $("past-rows").replaceChildren(...(rows.length ? rows : [h("p", { class: "empty" }, "Nothing on record matches.")]));
  } catch (error) {
    if (mine === asked) $("past-rows").replaceChildren(h("p", { class: "empty" }, error.message));
  }
}

async function open(id, row) {
  for (const one of document.querySelectorAll(".past-row")) one.classList.toggle("chosen", one === row);
  const place = $("past-one");
  try {
    place.replaceChildren(...about(await get(`/api/history/${encodeURIComponent(id)}`)));
  } catch (error) {
    place.replaceChildren(h("p", { class: "empty" }, error.message));
  }
}

function about(one) {
  const known = one.known;
  const took = one.durationSec === null ? "" : ` after ${span(one.durationSec)}`;
  const facts = [["why", one.reason || known.stopReason || known.error], ["in", home(one.cwd)], ["client", one.client], ["began", when(one.began)], ["verdict", known.verdict], ["because", (known.why ?? []).join("; ")],
    ["decision", known.decision && known.decision + (known.approvedBy ? `, approved by ${known.approvedBy}` : "")], ["limits", known.limits && `total ${span(known.limits.total)}, silence ${span(known.limits.silence)} (${known.limits.source})`],
    ["waited", known.waitsForInput ? "for somebody to type" : ""], ["hint", known.hint], ["on trial", one.trial]];
  const lines = one.output.split("\n");
  const last = lines.slice(-200).join("\n");
  return [
    h("h3", {}, h("code", { class: "what" }, one.command)),
    h("p", { class: "why", data: { mood: mood(one) } }, one.running ? "It runs." : `${one.ending}${took}.`.replace(/^./, (first) => first.toUpperCase())),
    h("dl", { class: "facts" }, ...facts.filter(([, text]) => text).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, String(text))])),
    ...(known.warnings ?? []).map((text) => h("p", { class: "doubt" }, `⚠ ${text}`)),
    h("ol", { class: "steps" }, ...one.steps.map((step) => h("li", {}, h("span", { class: "dim num" }, timeOfDay(step.at)), " ", step.kind.replaceAll("_", " ")))),
    one.problem ? h("p", { class: "dim" }, one.problem) : h("pre", { class: "output", tabindex: "0" }, last ? visible(last) : "It printed nothing."),
    lines.length > 200 ? h("p", { class: "dim" }, `The last 200 of ${lines.length} lines (${size(one.output.length)}).`) : null,
  ].filter(Boolean);
}

// Timeline

async function lanes() {
  const parent = $("lanes");
  try {
    const { runs } = await get("/api/history?count=500");
    if (view === "lanes") parent.replaceChildren(...timeline(runs));
  } catch (error) {
    parent.replaceChildren(h("p", { class: "empty" }, error.message));
  }
}

function timeline(runs) {
  const end = now(), start = end - length;
  const inside = runs.filter((one) => one.began + (one.durationSec ?? (one.running ? end - one.began : 0)) >= start);
  const names = [...new Set(inside.map((one) => one.client || "–"))];
  const place = (at) => ((Math.max(start, at) - start) / length) * 100;
  const lane = (name) => {
    const bars = inside.filter((one) => (one.client || "–") === name).map((one) => {
      const last = one.began + (one.running ? end - one.began : one.durationSec ?? 0);
      const bar = h("button", { class: "bar", data: { mood: mood(one) }, title: `${one.command}\n${one.running ? "runs" : one.ending}, ${timeOfDay(one.began)}`, onclick: () => { document.querySelector('[data-view="past"]').click(); open(one.runId); } }, h("span", {}, one.command));
      bar.style.left = `${place(one.began)}%`;
      bar.style.width = `max(${place(last) - place(one.began)}%, 4px)`;
      return bar;
    });
    return h("div", { class: "lane" }, h("div", { class: "lane-name" }, name, h("span", { class: "dim num" }, ` ${bars.length}`)), h("div", { class: "lane-bars" }, ...stack(bars)));
  };
  const ticks = [0, 1, 2, 3, 4].map((part) => h("span", { class: "dim num" }, timeOfDay(start + (length * part) / 4).slice(0, 5)));
  const windows = WINDOWS.map(([seconds, name]) => h("button", { "aria-pressed": String(seconds === length), onclick: () => { length = seconds; lanes(); } }, name));
  return [h("div", { class: "head" }, h("h2", {}, "Timeline"), h("div", { class: "choices" }, ...windows)), names.length ? h("div", { class: "lanes" }, ...names.map(lane), h("div", { class: "ticks" }, ...ticks)) : h("p", { class: "empty" }, "Nothing ran in this time.")];
}

// Those that overlap lie below one another, three deep.
function stack(bars) {
  const ends = [-1, -1, -1];
  for (const bar of bars.sort((a, b) => Number.parseFloat(a.style.left) - Number.parseFloat(b.style.left))) {
    const left = Number.parseFloat(bar.style.left), width = Math.max(0.4, Number.parseFloat(bar.style.width.slice(4)) || 0);
    const free = Math.max(0, ends.findIndex((end) => end <= left));
    ends[free] = left + width;
    bar.dataset.level = String(free);
  }
  return bars;
}

// What would happen to a command

function explain() {
  const parent = $("explain");
  if (parent.firstChild) return;
  const text = h("input", { id: "explain-text", placeholder: "rm -rf build", "aria-label": "A command", autocomplete: "off", spellcheck: "false" });
  const form = h("form", {}, text, h("button", { class: "allow" }, "Explain"));
  const answer = h("div", { class: "explained", "aria-live": "polite" });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      answer.replaceChildren(...told(await post("/api/explain", { command: text.value })));
    } catch (error) {
      answer.replaceChildren(h("p", { class: "doubt" }, error.message));
    }
  });
  parent.append(h("div", { class: "head" }, h("h2", {}, "What would happen to a command? ", h("span", { class: "dim" }, "Nothing is run."))), form, answer);
  text.focus();
}

function told(said) {
  const reasons = [...new Map(said.reasons.map((one) => [one.message, one])).values()];
  return [
    h("p", {}, h("span", { class: `tag ${said.verdict}` }, said.verdict), " ", h("b", {}, said.decision), `: ${DECISIONS[said.decision]}`),
    h("ul", { class: "reasons" }, ...(reasons.length ? reasons.map((one) => h("li", { class: one.rating }, one.message, " ", h("code", { class: "dim" }, one.rule || one.code))) : [h("li", {}, "every command in it is known to be read-only")])),
    h("dl", { class: "facts" }, h("dt", {}, "limits"), h("dd", {}, `total ${span(said.limits.execSec)}, silence ${span(said.limits.silenceSec)} (${said.limits.source.split(", pattern ")[0]})`)),
  ];
}
