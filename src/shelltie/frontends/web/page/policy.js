// Policy: what would happen to a command, which limits are in force and how often each applied, health.

import { get, post } from "./connection.js";
import { $, h } from "./dom.js";
import { span } from "./format.js";
import { state } from "./state.js";

const EXPECTED = new Set(["violations"]); // a refused command is what the rules are for: nothing is ill
const DECISIONS = { allow: "it runs", ask: "a person must say yes first", deny: "it is refused", trial: "it runs on trial", isolate: "it runs in a sandbox" };

export function show() {
  const parent = $("explain");
  if (!parent.firstChild) {
    parent.append(...explain(), h("div", { id: "policy-figures", class: "figures" }));
    $("explain-text").focus();
  }
  return figures();
}

function explain() {
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
  return [h("div", { class: "head" }, h("h2", {}, "What would happen to a command? ", h("span", { class: "dim" }, "Nothing is run."))), form, answer];
}

function told(said) {
  const reasons = [...new Map(said.reasons.map((one) => [one.message, one])).values()];
  return [
    h("p", {}, h("span", { class: `tag ${said.verdict}` }, said.verdict), " ", h("b", {}, said.decision), `: ${DECISIONS[said.decision] ?? said.decision}`),
    h("ul", { class: "reasons" }, ...(reasons.length ? reasons.map((one) => h("li", { class: one.rating }, one.message, " ", h("code", { class: "dim" }, one.rule || one.code))) : [h("li", {}, "every command in it is known to be read-only")])),
    h("dl", { class: "facts" }, h("dt", {}, "limits"), h("dd", {}, `total ${span(said.limits.execSec)}, silence ${span(said.limits.silenceSec)} (${said.limits.source.split(", pattern ")[0]})`)),
  ];
}

async function figures() {
  const place = $("policy-figures");
  const parts = await Promise.allSettled([get("/api/policy").then(limits), get("/api/health").then(health)]);
  place.replaceChildren(...parts.flatMap((part) => part.value ?? [h("p", { class: "doubt" }, part.reason.message)]));
}

function limits({ policy, hits }) {
  const rows = Object.entries(policy.categories).map(([name, one]) => {
    const [runs, ended] = hits.categories[name] ?? [0, 0];
    return h("tr", {}, h("th", { scope: "row", title: one.description }, name), h("td", { class: "num" }, span(one.execSec)), h("td", { class: "num" }, span(one.silenceSec)), h("td", { class: "num hits" }, String(runs)), h("td", { class: ended ? "num cut" : "num dim" }, String(ended)), h("td", { class: "patterns" }, h("details", {}, h("summary", { class: "dim" }, `${one.patterns.length} patterns`), ...one.patterns.map((text) => h("code", {}, text)))));
  });
  const decided = Object.entries(hits.decisions).map(([name, count]) => `${count} × ${name}`).join(", ");
  const most = Math.max(1, ...Object.values(hits.reasons));
  const reasons = Object.entries(hits.reasons).map(([code, count]) => {
    const bar = h("i", { class: "share" });
    bar.style.width = `${Math.max(2, (count / most) * 100)}%`;
    return h("tr", {}, h("th", { scope: "row" }, h("code", {}, code)), h("td", { class: "num hits" }, String(count)), h("td", { class: "shares" }, bar));
  });
  return [
    h("h3", {}, "Limits in force ", h("span", { class: "dim small" }, `${policy.file}: ${policy.status}; hits of the last 7 days`)),
    ...policy.problems.map((text) => h("p", { class: "doubt" }, `⚠ ${text}`)),
    h("table", { class: "categories" }, h("thead", {}, h("tr", {}, ...["category", "total", "silence", "runs", "timed out", ""].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...rows)),
    h("h3", {}, "Decisions ", h("span", { class: "dim small" }, decided || "none yet")),
    reasons.length ? h("table", {}, h("tbody", {}, ...reasons)) : h("p", { class: "dim" }, "No rule has had a reason to speak."),
  ];
}

function health({ servers }) {
  const lists = servers.map((one) => h("div", { class: "server" }, h("p", {}, h("b", {}, state.rows.get(`server/${one.server}`)?.client || "server"), h("span", { class: "dim num" }, ` pid ${one.pid}`)), h("ul", { class: "checks" }, ...one.checks.map((check) => h("li", { class: check.ok ? "good" : EXPECTED.has(check.name) ? "" : "bad" }, h("span", { "aria-hidden": "true" }, check.ok ? "✓ " : EXPECTED.has(check.name) ? "· " : "✗ "), h("b", {}, check.name), " ", check.message)))));
  return [h("h3", {}, "Health"), ...(lists.length ? lists : [h("p", { class: "dim" }, "No server runs.")])];
}
