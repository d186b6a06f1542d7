// The leash bar: how much is left until the next limit ends a run, as things are.

import { h, setText } from "./dom.js";
import { clock, span } from "./format.js";

const after = (run, limit) => (limit === "total" ? "in all" : run.literal ? "unless it prints" : "unless it prints or works");

export function leash() {
  const fill = h("i");
  const text = h("span", { class: "leash-text" });
  const element = h("div", { class: "leash", role: "meter", "aria-label": "time left" }, h("div", { class: "leash-bar" }, fill), text);
  return { element, fill, text };
}

export function nearest(run) {
  return run.ended ? null : run.deadlines?.[0] ?? null;
}

// Draws it for a moment; `brief` leaves room for little text.
export function draw({ element, fill, text }, run, now, brief = false) {
  const next = nearest(run);
  if (!next) {
    element.dataset.state = run.ended ? "over" : "none";
    fill.style.transform = `scaleX(${run.ended ? 0 : 1})`;
    setText(text, run.ended ? "" : brief ? "no limit" : "no limit ends it");
    return;
  }
  const left = Math.max(0, next.at - now);
  const share = Math.min(1, left / next.span);
  const state = left <= 10 ? "end" : now >= next.warnAt ? "warn" : "calm";
  element.dataset.state = state;
  element.setAttribute("aria-valuenow", Math.round(share * 100));
  fill.style.transform = `scaleX(${share.toFixed(4)})`;
  if (state === "calm") setText(text, brief ? clock(left) : `${next.limit} limit ${span(next.span)}: ${clock(left)} left`);
  else setText(text, brief ? `ends in ${Math.ceil(left)} s` : `ends in ${left < 60 ? `${Math.ceil(left)} s` : clock(left)} ${after(run, next.limit)}`);
}
