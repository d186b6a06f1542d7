// A line that says what became of what a person did.

import { $ } from "./dom.js";

let timer = null;

export function notice(text, mood = "", stays = false) {
  const element = $("notice");
  element.textContent = text;
  element.className = mood;
  element.hidden = !text;
  clearTimeout(timer);
  if (!stays) timer = setTimeout(() => { element.hidden = true; }, 6000);
}
