// Waiting for you: every question of every server, with all that a yes is bound to.

import { post } from "./connection.js";
import { $, h, setChildren, setText } from "./dom.js";
import { clock, home, size, span } from "./format.js";
import { now, questions, ripe, state, steers, who } from "./state.js";
import { notice } from "./notice.js";
import { diffBox } from "./trial.js";

const cards = new Map();
const SCOPES = { once: "Allow once", session: "This session", always: "Always…", kind: "This kind…" };
const LINES_IN_SIGHT = 14;
const WORDS = { dangerous: "dangerous", unknown: "not known to be safe", safe: "safe" };

export function render() {
  const asked = questions();
  for (const key of [...cards.keys()]) if (!asked.some((one) => one.key === key)) cards.delete(key);
  const shown = asked.map((one) => {
    const known = cards.get(one.key);
    if (known?.digest === one.digest && known.late === one.late) return known.element;
    const card = build(one);
    cards.set(one.key, card);
    return card.element;
  });
  setText($("waiting"), String(asked.length));
  $("inbox").classList.toggle("has", asked.length > 0);
  setChildren($("cards"), shown.length ? shown : [empty()]);
  tick();
}

let nothing = null;
function empty() {
  nothing ??= h("p", { class: "empty" }, h("b", {}, "Nothing waits for you."), " When an agent wants something that needs your yes, it appears here.");
  return nothing;
}

export function tick() {
  for (const [key, card] of cards) {
    const one = state.rows.get(key);
    if (!one) continue;
    const left = one.expiresAt ? one.expiresAt - now() : null;
    setText(card.expires, left === null ? "waits" : `no in ${clock(left)}`);
    card.expires.classList.toggle("soon", left !== null && left < 20);
    setText(card.ago, `${span(now() - one.askedAt)} ago`);
    for (const button of card.element.querySelectorAll("button")) button.disabled = !steers() || card.sent;
  }
}

// The card that keys answer: the one in focus, or the first.
export function current() {
  const focused = document.activeElement?.closest?.(".card");
  const key = focused?.dataset.key ?? questions()[0]?.key;
  return key && cards.get(key);
}

function build(one) {
  const card = { digest: one.digest, late: one.late, sent: false };
  card.expires = h("span", { class: "expires num", title: "without an answer it counts as no" });
  card.ago = h("span", { class: "dim" });
  card.more = h("div", { class: "rule", hidden: true });
  const allow = one.scopes.map((scope) => h("button", { class: scope === "once" ? "allow" : "", data: { scope }, onclick: () => choose(one, card, scope) }, one.isApply ? "Apply" : SCOPES[scope]));
  card.element = h("article", { class: `card ${one.rating}`, tabindex: "0", data: { key: one.key }, "aria-label": `${who(one)} asks: ${one.command.join(" ")}` },
    h("header", {}, h("b", {}, who(one)), h("span", { class: `tag ${one.rating}` }, one.isApply ? "changes of a trial" : WORDS[one.rating] ?? one.rating), card.expires),
    commandBox(one.command),
    one.command.length > LINES_IN_SIGHT && h("p", { class: "dim small" }, `${one.command.length} lines: scroll to read all of them`),
    one.isArgv && h("p", { class: "dim small" }, "a program and its arguments; no shell reads them"),
    ...one.doubts.map((doubt) => h("p", { class: "doubt" }, `⚠ ${doubt}`)),
    h("ul", { class: "reasons" }, ...one.reasons.map((reason) => h("li", { class: reason.rating }, reason.message, " ", h("code", { class: "dim" }, reason.rule || reason.code)))),
    h("dl", { class: "facts" },
      h("dt", {}, "in"), h("dd", {}, h("code", {}, home(one.cwd))),
      one.provider !== "local" && [h("dt", {}, "by"), h("dd", {}, one.provider)],
      ...one.env.map((variable) => [h("dt", {}, variable.unset ? "unset" : "set"), h("dd", {}, h("code", {}, variable.text))]).flat(),
      one.input && [h("dt", {}, "input"), h("dd", {}, size(one.input.size), h("pre", { class: "command small" }, one.input.lines.join("\n")), one.input.more > 0 && `${size(one.input.more)} more are not shown`)],
      h("dt", {}, "asked"), h("dd", {}, card.ago, " ", h("code", { class: "dim" }, one.id))),
    one.late && h("p", { class: "late" }, "The agent no longer waits. A yes is kept for ten minutes, for the same call again."),
    h("div", { class: "answers" }, ...allow, h("button", { class: "deny", onclick: () => answer(one, card, { allowed: false }) }, "Deny")),
    card.more);
  card.allow = () => answer(one, card, { allowed: true, scope: "once" });
  card.deny = () => answer(one, card, { allowed: false });
  return card;
}

// The changes of a trial are a diff, which is read better in its colours; nothing of it is left out.
function commandBox(lines) {
  const at = lines.findIndex((line) => line.startsWith("diff --git "));
  const box = h("pre", { class: "command", tabindex: "0" }, ...lines.slice(0, at < 0 ? undefined : at).map((line) => h("div", { class: "line" }, line || "\u200b")));
  return at < 0 ? box : h("div", { class: "changes" }, box, diffBox(lines.slice(at)));
}

// What is kept in a file is shown first, as it will stand there.
function choose(one, card, scope) {
  if (scope !== "always" && scope !== "kind") {
    answer(one, card, { allowed: true, scope });
    return;
  }
  const always = scope === "always";
  card.more.hidden = false;
  card.more.replaceChildren(
    h("p", {}, always ? "This rule will be written. From then on exactly this command runs here without a question:" : "From then on every command of this kind runs without a question:"),
    h("pre", { class: "command small" }, always ? one.rule : one.kind),
    h("button", { class: "allow", onclick: () => answer(one, card, { allowed: true, scope }) }, always ? "Write the rule and allow" : "Allow this kind"),
    h("button", { onclick: () => { card.more.hidden = true; } }, "Back"));
  card.more.querySelector("button").focus();
}

async function answer(one, card, said) {
  if (card.sent || !steers() || !ripe(one.key)) return;
  card.sent = true;
  card.element.classList.add("sent");
  tick();
  try {
    const taken = await post("/api/answer", { question: one.key, digest: card.digest, ...said });
    const words = taken.allowed ? `Allowed (${taken.scope})` : "Denied";
    notice(taken.note && taken.allowed ? `${words}: ${taken.note}` : words, "good");
  } catch (error) {
    card.sent = false;
    card.element.classList.remove("sent");
    notice(error.message, "bad");
    tick();
  }
}
