// A trial: what a command has changed on its copy of the workspace, to apply or to discard.

import { get, post } from "./connection.js";
import { h } from "./dom.js";
import { notice } from "./notice.js";
import { steers } from "./state.js";

const DONE = { apply: "Applied. `shelltie undo` takes it back.", discard: "Discarded", undo: "Undone" };

export function trialBox(id) {
  const box = h("section", { class: "trial", "aria-label": `Trial ${id}` }, h("p", { class: "dim" }, `Trial ${id}…`));
  fill(box, id);
  return box;
}

async function fill(box, id) {
  try {
    const said = await get(`/api/trials/${encodeURIComponent(id)}`);
    box.replaceChildren(...draw(box, id, said));
  } catch (error) {
    box.replaceChildren(h("p", { class: "dim" }, `Trial ${id}: ${error.message}`));
  }
}

function draw(box, id, said) {
  const open = said.status === "open", lines = said.diff.split("\n");
  return [
    h("p", {}, h("b", {}, `Trial ${id}`), ` ${said.status}: `, said.summary),
    said.why ? h("p", { class: "dim" }, said.why) : null,
    ...said.objections.map((text) => h("p", { class: "doubt" }, `⚠ ${text}`)),
    said.diff ? diffBox(lines) : null,
    said.more ? h("p", { class: "doubt" }, `The diff is longer: shelltie changes ${id} --diff has all of it.`) : null,
    open && steers() ? h("div", { class: "answers" }, h("button", { class: "allow", onclick: () => decide(box, id, "apply", said.digest) }, "Apply"), h("button", { class: "deny", onclick: () => decide(box, id, "discard", said.digest) }, "Discard")) : null,
    said.status === "applied" && steers() ? h("button", { onclick: () => decide(box, id, "undo", said.digest) }, "Undo") : null,
  ].filter(Boolean);
}

export function diffBox(lines) {
  const kind = (line) => (line.startsWith("+") && !line.startsWith("+++") ? "added" : line.startsWith("-") && !line.startsWith("---") ? "removed" : line.startsWith("@@") ? "hunk" : /^(diff |\+\+\+|---|index )/.test(line) ? "file" : "");
  return h("pre", { class: "diff", tabindex: "0", "aria-label": "Changes" }, ...lines.map((line) => h("div", { class: `line ${kind(line)}` }, line || "\u200b")));
}

async function decide(box, id, act, digest) {
  for (const button of box.querySelectorAll("button")) button.disabled = true;
  try {
    const said = await post("/api/trial", { trial: id, act, digest });
    notice(said.why ? `${DONE[act]} (${said.why})` : DONE[act], "good");
  } catch (error) {
    notice(error.message, "bad");
  }
  fill(box, id);
}
