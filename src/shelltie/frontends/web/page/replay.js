// Replay of a past run: what it printed, when it printed it, from any second on.

import { get } from "./connection.js";
import { h } from "./dom.js";
import { clock, size } from "./format.js";
import { Output } from "./output.js";
import { newTerminal } from "./terminal.js";

const TICK = 50;
const PAUSE = 2; // seconds; longer ones are cut
const SPEEDS = [1, 4, 16];

let current = null;

export function stopReplay() {
  clearInterval(current?.timer);
  current = null;
}

export async function replay(one, parent, from) {
  stopReplay();
  const mine = { timer: null };
  current = mine;
  const said = await get(`/api/replay/${encodeURIComponent(one.runId)}`);
  if (current !== mine) return;
  const bytes = Uint8Array.from(atob(said.data), (char) => char.charCodeAt(0));
  const length = Math.max(one.durationSec ?? 0, said.times.at(-1)?.[0] ?? 0, 0.1);
  const scroller = h("div", { class: "scroller replayed", tabindex: "0", role: "group", "aria-label": "Replay" });
  const slider = h("input", { type: "range", min: "0", max: String(length), step: "0.05", "aria-label": "Second" });
  const told = h("span", { class: "dim num" });
  const button = h("button", {}, "❚❚ Pause");
  const speed = h("select", { "aria-label": "Speed" }, ...SPEEDS.map((times) => h("option", { value: String(times) }, `${times}×`)));
  parent.replaceChildren(h("div", { class: "replay" }, button, slider, told, speed), said.dropped ? h("p", { class: "dim small" }, `${size(said.dropped)} before this are not replayed.`) : "", scroller);
  const output = newTerminal() ?? new Output(scroller);
  output.show?.(scroller);
  output.setUp?.(said.size, null);
  let at = 0, piece = 0, drawn = 0;

  const draw = (moment) => {
    if (moment < at) {
      output.reset();
      piece = drawn = 0;
    }
    at = moment;
    let until = drawn;
    while (piece < said.times.length && said.times[piece][0] <= at) until = said.times[piece++][1];
    if (until > drawn) output.feed(bytes.subarray(drawn, until), true);
    drawn = until;
    slider.value = String(at);
    told.textContent = `${clock(Math.floor(at))} / ${clock(length)}`;
  };
  const pause = () => {
    clearInterval(mine.timer);
    mine.timer = null;
    button.textContent = "▶ Play";
  };
  const step = () => {
    if (!scroller.isConnected || at >= length) return pause();
    const next = said.times[piece]?.[0] ?? length;
    return draw(Math.min(length, Math.max(at + (TICK / 1000) * Number(speed.value), next - PAUSE)));
  };
  const go = () => {
    if (at >= length) draw(0);
    button.textContent = "❚❚ Pause";
    mine.timer = setInterval(step, TICK);
  };
  button.addEventListener("click", () => (mine.timer === null ? go() : pause()));
  slider.addEventListener("input", () => draw(Number(slider.value)));
  draw(Math.min(from, length));
  go();
}
