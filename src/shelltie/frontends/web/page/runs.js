// The list of runs, and everything about the one that is selected.

import { post } from "./connection.js";
import { $, h, holdable, setChildren, setText } from "./dom.js";
import { ending, home, mood, size, span, timeOfDay } from "./format.js";
import { draw, leash, nearest } from "./leash.js";
import { notice } from "./notice.js";
import { Output } from "./output.js";
import { now, run, runs, state, steers, who } from "./state.js";
import { terminal } from "./terminal.js";
import { trialBox } from "./trial.js";

const MORE = 300; // seconds by which limits are extended
const HOLD = 800;
const AS_TEXT = "Shown as text: this copy was built without xterm.js.";
const SHOWN = 400; // rows; a filter finds the others
const rows = new Map();
const WORDS = { safe: "safe", unknown: "not known to be safe", dangerous: "dangerous" };
let order = [];
let openWhy = () => {}; // shows all that is on record about a run
let detail = null;

export function onWhy(open) {
  openWhy = open;
}

export function render() {
  const { live, ended } = runs($("filter").value);
  setText($("count"), String(live.length));
  order = [...live, ...ended].slice(0, SHOWN);
  const keys = new Set(order.map((one) => one.key));
  for (const key of [...rows.keys()]) if (!keys.has(key)) rows.delete(key);
  const elements = order.map((one) => (rows.get(one.key) ?? add(one)).element);
  if (ended.length) elements.splice(live.length, 0, divider(live.length));
  setChildren($("rows"), elements.length ? elements : [empty()]);
  for (const one of order) update(one);
  if (!run(state.selected)) select(order[0]?.key ?? null);
  else renderDetail();
  tick();
}

let line = null;
function divider(above) {
  line ??= h("div", { class: "divider" }, "Ended");
  line.classList.toggle("first", above === 0);
  return line;
}

let nothing = null;
function empty() {
  nothing ??= h("p", { class: "empty" }, h("b", {}, "Nothing runs."), " What your agents run through shelltie appears here by itself.");
  return nothing;
}

function add(one) {
  const row = { leash: leash(), command: h("code", { class: "what" }), meta: h("span", { class: "dim" }), end: h("span", { class: "end" }) };
  row.element = h("div", { class: "row", role: "option", id: `row-${one.key.replaceAll("/", "-")}`, data: { key: one.key }, onclick: () => select(one.key, true) },
    h("i", { class: "dot", "aria-hidden": "true" }), h("div", { class: "row-text" }, row.command, h("div", { class: "row-meta" }, row.meta, row.end)), row.leash.element);
  rows.set(one.key, row);
  return row;
}

function update(one) {
  const row = rows.get(one.key);
  setText(row.command, one.command ?? "");
  setText(row.meta, `${who(one)} · ${one.sessionId ?? one.runId.slice(-6)}`);
  setText(row.end, one.ended ? ending(one) : "");
  row.element.dataset.mood = mood(one);
  row.element.setAttribute("aria-selected", String(one.key === state.selected));
}

export function tick() {
  const moment = now();
  for (const one of order) {
    const row = rows.get(one.key);
    if (!row) continue;
    draw(row.leash, one, moment, true);
    row.element.dataset.state = row.leash.element.dataset.state;
  }
  if (detail) tickDetail(run(state.selected), moment);
}

export function move(by) {
  if (!order.length) return;
  const at = order.findIndex((one) => one.key === state.selected);
  const next = order[Math.min(order.length - 1, Math.max(0, at + by))];
  select(next.key);
  rows.get(next.key).element.scrollIntoView({ block: "nearest" });
}

export function select(key, opens = false) {
  document.body.classList.toggle("opened", opens && key !== null);
  if (key === state.selected && detail) return;
  state.selected = key;
  detail = null;
  $("detail").replaceChildren();
  follow();
  for (const one of order) update(one);
  $("rows").setAttribute("aria-activedescendant", key ? `row-${key.replaceAll("/", "-")}` : "");
  renderDetail();
}

export function follow() {
  if (state.stream) post("/api/follow", { stream: state.stream, run: state.selected }).catch(() => {});
}

// The selected run. It is drawn anew where the terminal has just come.

export function redraw() {
  detail = null;
  renderDetail();
  follow();
}

function renderDetail() {
  const one = run(state.selected);
  if (!one) {
    $("detail").replaceChildren(h("p", { class: "empty" }, "Select a run."));
    detail = null;
    return;
  }
  if (!detail) build(one);
  setText(detail.command, one.command ?? "");
  setText(detail.meta, `${who(one)} · ${home(one.cwd)}`);
  const reasons = [...new Set((one.reasons ?? []).map((reason) => reason.message))];
  setText(detail.verdict, WORDS[one.verdict] ?? one.verdict ?? "not judged");
  detail.verdict.className = `tag ${one.verdict ?? ""}`;
  setText(detail.reasons, reasons.length ? reasons.join("; ") : one.verdict === "safe" ? "every command in it is known to be read-only" : "");
  setText(detail.limits, limits(one));
  setText(detail.where, [one.provider, one.isolation && `isolation ${one.isolation}`, one.pid && `pid ${one.pid}`, one.stays && (one.server === "stays" ? "stays, and no server holds it" : "stays when its server ends")].filter(Boolean).join(" · "));
  const warnings = [...(one.limits?.notes ?? []), ...(one.warnings ?? [])];
  setChildren(detail.warnings, warnings.length === detail.warnings.children.length ? [...detail.warnings.children] : warnings.map((text) => h("li", {}, text)));
  const types = state.allowInput && steers() && one.takesInput && !one.ended;
  detail.type.hidden = !types;
  detail.terminal?.setUp(one.pty, types && one.pty ? (text) => typed(one.key, text) : null);
  detail.fit.hidden = !(detail.terminal && one.pty && steers() && !one.ended);
  setText(detail.why.firstElementChild, one.ended ? why(one) : "");
  detail.why.hidden = !one.ended;
  if (one.ended && one.trial && !detail.trial.firstChild) detail.trial.append(trialBox(one.trial));
  detail.why.dataset.mood = mood(one);
  tickDetail(one, now());
}

function limits(one) {
  const { execSec, silenceSec, source } = one.limits ?? {};
  if (!one.limits) return "";
  const where = (source ?? "").split("; ").map((part) => part.split(", pattern ")[0]).join("; ");
  return `total ${span(execSec)}, silence ${span(silenceSec)} (${where})`;
}

function why(one) {
  const took = one.duration === null || one.duration === undefined ? "" : ` after ${span(one.duration)}`;
  if (one.state === "timed_out") {
    const limit = one.limit === "silence" ? `it printed nothing for ${span(one.limits?.silenceSec)}` : `its ${span(one.limits?.execSec)} were over`;
    return `Ended by shelltie${took}: ${limit}.`;
  }
  if (one.state === "finished") return one.exitCode === 0 ? `Ended well${took}.` : `Ended with ${ending(one)}${took}.`;
  return `${ending(one)}${took}${one.stopReason ? `: ${one.stopReason}` : ""}.`.replace(/^./, (first) => first.toUpperCase());
}

function build(one) {
  detail = { leash: leash(), command: h("code", { class: "what" }), meta: h("span", {}), since: h("span", { class: "dim num" }) };
  detail.more = h("button", { title: "Both limits end it five minutes later", onclick: () => act("/api/extend", { run: one.key, seconds: MORE }, "Five minutes more") }, "+5 min");
  detail.kill = h("button", { class: "hold danger", title: "Hold to end it and all its processes (hold x)" }, h("span", {}, "Kill"));
  detail.hold = holdable(detail.kill, HOLD, () => act("/api/kill", { run: one.key }, "Ended"));
  Object.assign(detail, { verdict: h("span", {}), reasons: h("span", {}), limits: h("span", {}), where: h("span", {}), warnings: h("ul", { class: "warnings" }), why: h("p", { class: "why" }, h("span"), " ", h("button", { class: "quiet", onclick: () => openWhy(one.runId) }, "Why, and replay")), trial: h("div"), tree: h("div", { class: "tree" }), waits: h("p", { class: "waits", hidden: true }) });
  detail.skipped = h("p", { class: "skipped dim small" });
  const scroller = h("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": "Output" });
  detail.terminal = terminal();
  detail.fit = h("button", { class: "quiet", hidden: true, title: "Give its terminal the size of this one", onclick: () => act("/api/resize", { run: one.key, ...detail.terminal.room() }, "Its terminal has another size") }, "Fit");
  const direct = detail.terminal && one.pty;
  detail.input = h("input", { autocomplete: "off", spellcheck: "false", "aria-label": "Type into it", placeholder: direct ? "Type a line, or click into the terminal" : "Type a line, then Enter", title: direct ? "ctrl-] leaves the terminal" : "" });
  detail.type = h("form", { class: "type", hidden: true }, h("span", { class: "dim" }, "›"), detail.input);
  detail.type.addEventListener("submit", (event) => { event.preventDefault(); type(one.key); });
  $("detail").replaceChildren(
    h("header", { class: "detail-head" }, h("button", { class: "back quiet", onclick: () => document.body.classList.remove("opened") }, "‹ Back"), detail.command,
      h("div", { class: "meta" }, detail.meta, detail.since)),
    h("div", { class: "leash-row" }, detail.leash.element, detail.fit, detail.more, detail.kill),
    detail.why, detail.trial, detail.waits, detail.skipped, scroller, detail.type,
    h("dl", { class: "facts" }, h("dt", {}, "verdict"), h("dd", {}, detail.verdict, " ", detail.reasons), h("dt", {}, "limits"), h("dd", {}, detail.limits), h("dt", {}, "runs in"), h("dd", {}, detail.where)),
    detail.warnings, detail.tree);
  detail.output = detail.terminal ?? new Output(scroller);
  detail.position = 0;
  if (!detail.terminal) return;
  detail.terminal.overrun = follow; // what was dropped is not missed: the end comes again
  detail.terminal.show(scroller);
}

function tickDetail(one, moment) {
  if (!one || !detail) return;
  draw(detail.leash, one, moment);
  const printed = one.ended || !one.lastOutputAt ? "" : ` · ${size(one.outputBytes ?? 0)}, the last ${span(moment - one.lastOutputAt)} ago`;
  setText(detail.since, one.ended ? `ended ${timeOfDay(one.endedAt ?? one.startedAt)}` : `since ${timeOfDay(one.startedAt)}, ${span(moment - one.startedAt)}${printed}`);
  detail.more.disabled = !steers() || !nearest(one);
  detail.kill.disabled = !steers() || one.ended;
}

export function takeOutput(message) {
  if (!detail || message.run !== state.selected) return;
  if (message.reset) {
    detail.output.reset();
    detail.position = detail.missing = 0;
  }
  detail.missing += message.start - detail.position;
  setText(detail.skipped, [detail.missing ? `${size(detail.missing)} are not shown; shelltie logs has them.` : "", detail.terminal ? "" : AS_TEXT].join(" ").trim());
  const bytes = Uint8Array.from(atob(message.data), (char) => char.charCodeAt(0));
  detail.position = message.start + bytes.length;
  detail.output.feed(bytes);
}

let before = null; // the last look at the processes, to tell how busy they are since

export function takeTree(message) {
  if (!detail || message.run !== state.selected) return;
  const old = before?.run === message.run ? new Map(before.processes.map((one) => [one.pid, one.cpu])) : new Map();
  const time = before ? message.now - before.now : 0;
  before = message;
  detail.waits.hidden = !message.waitingForInput;
  setText(detail.waits, message.password ? "It waits for a password." : "It waits for somebody to type.");
  const depth = new Map();
  detail.tree.replaceChildren(...message.processes.map((one) => {
    const level = depth.has(one.parent) ? depth.get(one.parent) + 1 : 0;
    depth.set(one.pid, level);
    const used = old.has(one.pid) && time > 0 ? Math.round(((one.cpu - old.get(one.pid)) / time) * 100) : null;
    const node = h("div", { class: "process" }, h("code", {}, one.name), h("span", { class: "dim num" }, String(one.pid)), h("span", { class: "num busy" }, used === null ? "" : `${used} %`));
    node.style.paddingInlineStart = `${level * 1.1}rem`;
    return node;
  }));
}

// Steering

export async function act(path, body, done) {
  try {
    const said = await post(path, body);
    notice(said.problems?.length ? said.problems.join("; ") : done, said.problems?.length ? "bad" : "good");
  } catch (error) {
    notice(error.message, "bad");
  }
}

let unsent = "", sending = false;

// What is typed into the terminal, in order: the next request waits for the last one.
async function typed(key, text) {
  unsent += text;
  if (sending) return;
  sending = true;
  try {
    while (unsent) {
      const next = unsent;
      unsent = "";
      await post("/api/type", { run: key, text: next });
    }
  } catch (error) {
    unsent = "";
    notice(error.message, "bad");
  } finally {
    sending = false;
  }
}

async function type(key) {
  const text = detail.input.value;
  detail.input.value = "";
  try {
    await post("/api/type", { run: key, text: text + (run(key)?.pty ? "\r" : "\n") });
  } catch (error) {
    detail.input.value = text;
    notice(error.message, "bad");
  }
}

export const holdKill = () => detail && !detail.kill.disabled && detail.hold.begin();
export const releaseKill = () => detail?.hold.end();
