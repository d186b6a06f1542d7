// Timeline: a lane for each agent, with what ran, waited for a person, was warned and was ended.

import { get } from "./connection.js";
import { $, h } from "./dom.js";
import { span, timeOfDay } from "./format.js";
import { mood } from "./past.js";
import { now } from "./state.js";

const WINDOWS = [[600, "10 min"], [3600, "1 h"], [6 * 3600, "6 h"], [86400, "1 day"]];
const LEVELS = 4;
let length = 3600;

export async function show(open) {
  const parent = $("lanes");
  try {
    const said = await get(`/api/timeline?since=${(now() - length).toFixed(0)}`);
    parent.replaceChildren(...draw(said, open));
  } catch (error) {
    parent.replaceChildren(h("p", { class: "empty" }, error.message));
  }
}

function draw({ runs, marks }, open) {
  const end = now(), start = end - length;
  const place = (at) => ((Math.min(end, Math.max(start, at)) - start) / length) * 100;
  const known = new Map();
  for (const { run, kind, at } of marks.toReversed()) {
    if (!known.has(run)) known.set(run, { warned: [] });
    if (kind === "warned") known.get(run).warned.push(at);
    else known.get(run)[kind] = at;
  }
  const spans = runs.map((one) => {
    const moments = known.get(one.runId) ?? { warned: [] };
    const last = one.running ? end : one.began + (one.durationSec ?? 0);
    return { ...one, ...moments, first: Math.min(one.began, moments.asked ?? one.began), last };
  }).filter((one) => one.last >= start);
  const names = [...new Set(spans.map((one) => one.client || "–"))];
  const lane = (name) => {
    const own = spans.filter((one) => (one.client || "–") === name);
    stack(own);
    return h("div", { class: "lane" }, h("div", { class: "lane-name" }, name, h("span", { class: "dim num" }, ` ${own.length}`)), h("div", { class: "lane-bars" }, ...own.flatMap((one) => pieces(one, place, open))));
  };
  const ticks = [0, 1, 2, 3, 4].map((part) => h("span", { class: "dim num" }, timeOfDay(start + (length * part) / 4).slice(0, 5)));
  const windows = WINDOWS.map(([seconds, name]) => h("button", { "aria-pressed": String(seconds === length), onclick: () => { length = seconds; show(open); } }, name));
  const legend = h("p", { class: "legend dim small" }, h("i", { class: "sample wait" }), "waits for a person", h("i", { class: "sample" }), "runs", h("b", { class: "warned" }, "▲"), "warned", h("b", { class: "ended" }, "✗"), "ended by shelltie or a person");
  return [h("div", { class: "head" }, h("h2", {}, "Timeline"), h("div", { class: "choices" }, ...windows), h("span", { class: "dim small" }, "Click to replay from that second.")), names.length ? h("div", { class: "lanes" }, ...names.map(lane), h("div", { class: "ticks" }, ...ticks), legend) : h("p", { class: "empty" }, "Nothing ran in this time.")];
}

// The run, the time before in which it waited for a yes, and what happened to it.
function pieces(one, place, open) {
  const title = `${one.command}\n${one.running ? "runs" : one.ending}, ${timeOfDay(one.began)}`;
  const at = (element, from, to) => {
    element.dataset.level = String(one.level);
    element.style.left = `${place(from)}%`;
    if (to !== undefined) element.style.width = `max(${place(to) - place(from)}%, 4px)`;
    return element;
  };
  const bar = at(h("button", { class: "bar", data: { mood: mood(one), run: one.runId }, title, onclick: (event) => open(one.runId, second(event, one)) }, h("span", {}, one.command)), one.began, one.last);
  const answered = one.answered ?? (one.running ? undefined : one.began);
  const waited = one.asked === undefined ? null : at(h("i", { class: "bar wait", title: `waited ${span((answered ?? now()) - one.asked)} for a person` }), one.asked, answered ?? now());
  const warned = one.warned.map((moment) => at(h("b", { class: "moment warned", title: `warned, ${timeOfDay(moment)}` }, "▲"), moment));
  const ended = mood(one) === "cut" ? [at(h("b", { class: "moment ended", title: one.ending }, "✗"), one.last)] : [];
  return [waited, bar, ...warned, ...ended].filter(Boolean);
}

// Which second of the run was clicked; a key means its beginning.
function second(event, one) {
  const box = event.currentTarget.getBoundingClientRect();
  const share = event.detail && box.width > 0 ? Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) : 0;
  return share * Math.max(0, one.last - one.began);
}

// Those that overlap lie below one another.
function stack(spans) {
  const ends = Array(LEVELS).fill(-Infinity);
  const least = length / 100; // as wide as something that can be clicked
  for (const one of spans.sort((a, b) => a.first - b.first)) {
    one.level = Math.max(0, ends.findIndex((end) => end <= one.first));
    ends[one.level] = Math.max(one.last, one.first + least);
  }
}
