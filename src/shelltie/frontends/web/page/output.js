// Output as text with colours: a terminal of lines that obeys colours, carriage returns and erasing.
// Everything else in it (titles, links, pictures, cursor addresses) is dropped, and what would
// change the order of letters is shown by its name.

import { h } from "./dom.js";

const LINES = 2000;
const WIDTH = 4000;
const COLOURS = 16;
const ESCAPE = /\x1b(?:\[([0-?]{0,64})[ -/]{0,8}([@-~])|[\]PX^_][^\x07\x1b]{0,100000}(?:\x07|\x1b\\)|[ -/]{0,4}[0-~])/y;
const UNFINISHED = /\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|[\]PX^_][^\x07\x1b]{0,100000}\x1b?|[ -/]{0,4})?$/;
const ORDERING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const NAMES = { "\u202a": "LRE", "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO", "\u202e": "RLO", "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI", "\u200e": "LRM", "\u200f": "RLM", "\u061c": "ALM" };
const PLAIN = "";

export class Output {
  constructor(scroller) {
    this.scroller = scroller;
    this.element = h("pre", { class: "output" });
    scroller.append(this.element);
    this.pinned = true; // to its end, until somebody scrolls up
    this.scroller.addEventListener("scroll", () => { this.pinned = this.fromEnd() < 40; });
    new ResizeObserver(() => this.pin()).observe(this.scroller);
    this.reset();
  }

  reset() {
    this.decoder = new TextDecoder();
    this.rest = "";
    this.style = { fg: null, bg: null, bold: false, dim: false, under: false, invert: false };
    this.lines = [[]]; // each an array of [character, class]
    this.row = 0;
    this.column = 0;
    this.first = 0; // the number of lines that were dropped
    this.changed = new Set([0]);
    this.fullscreen = false;
    this.element.replaceChildren();
    this.nodes = [];
    this.dropped = 0;
    this.schedule();
  }

  feed(bytes) {
    let text = this.rest + this.decoder.decode(bytes, { stream: true });
    const cut = UNFINISHED.exec(text);
    this.rest = "";
    if (cut && text.length - cut.index < 100000) {
      this.rest = text.slice(cut.index);
      text = text.slice(0, cut.index);
    }
    this.draw(text);
    this.schedule();
  }

  draw(text) {
    let index = 0;
    while (index < text.length) {
      const char = text[index];
      if (char === "\x1b") {
        ESCAPE.lastIndex = index;
        const found = ESCAPE.exec(text);
        if (found) {
          index = ESCAPE.lastIndex;
          if (found[2]) this.obey(found[1], found[2]);
          continue;
        }
      }
      const code = text.codePointAt(index);
      const letter = String.fromCodePoint(code);
      index += letter.length;
      this.put(letter, code);
    }
  }

  put(letter, code) {
    if (letter === "\n") this.down();
    else if (letter === "\r") this.column = 0;
    else if (letter === "\b") this.column = Math.max(0, this.column - 1);
    else if (letter === "\t") for (let stop = 8 - (this.column % 8); stop > 0; stop--) this.write(" ");
    else if (code < 32 || (code >= 127 && code < 160)) return;
    else if (NAMES[letter]) this.write(`⟨${NAMES[letter]}⟩`);
    else this.write(letter);
  }

  write(letter) {
    if (this.column >= WIDTH) this.down();
    const line = this.lines[this.row];
    while (line.length < this.column) line.push([" ", PLAIN]);
    line[this.column++] = [letter, this.classes()];
    this.changed.add(this.first + this.row);
  }

  down() {
    this.row++;
    this.column = 0;
    if (this.row >= this.lines.length) this.lines.push([]);
    this.changed.add(this.first + this.row);
    if (this.lines.length > LINES) {
      this.lines.shift();
      this.first++;
      this.row--;
    }
  }

  obey(given, kind) {
    const numbers = given.split(";").map((one) => Number.parseInt(one, 10) || 0);
    const count = Math.max(1, numbers[0]);
    const line = this.lines[this.row];
    if (kind === "m") this.paint(numbers);
    else if (kind === "K") {
      if (numbers[0] === 0) line.length = Math.min(line.length, this.column);
      else for (let at = 0; at < (numbers[0] === 2 ? line.length : this.column); at++) line[at] = [" ", PLAIN];
    }
    else if (kind === "J" && numbers[0] >= 2) this.down();
    else if (kind === "A") this.row = Math.max(0, this.row - Math.min(count, 200));
    else if (kind === "B") this.row = Math.min(this.lines.length - 1, this.row + count);
    else if (kind === "C") this.column = Math.min(WIDTH, this.column + count);
    else if (kind === "D") this.column = Math.max(0, this.column - count);
    else if (kind === "G") this.column = Math.min(WIDTH, count - 1);
    else if (kind === "h" && /^\?(1049|1047|47)$/.test(given)) this.fullscreen = true;
    else if (kind === "l" && /^\?(1049|1047|47)$/.test(given)) this.fullscreen = false;
    this.changed.add(this.first + this.row);
  }

  paint(numbers) {
    const style = this.style;
    for (let at = 0; at < numbers.length; at++) {
      const number = numbers[at];
      if (number === 0) Object.assign(style, { fg: null, bg: null, bold: false, dim: false, under: false, invert: false });
      else if (number === 1) style.bold = true;
      else if (number === 2) style.dim = true;
      else if (number === 4) style.under = true;
      else if (number === 7) style.invert = true;
      else if (number === 22) style.bold = style.dim = false;
      else if (number === 24) style.under = false;
      else if (number === 27) style.invert = false;
      else if (number >= 30 && number <= 37) style.fg = number - 30;
      else if (number === 39) style.fg = null;
      else if (number >= 40 && number <= 47) style.bg = number - 40;
      else if (number === 49) style.bg = null;
      else if (number >= 90 && number <= 97) style.fg = number - 82;
      else if (number >= 100 && number <= 107) style.bg = number - 92;
      else if (number === 38 || number === 48) {
        const colour = numbers[at + 1] === 5 ? nearest(numbers[at + 2]) : rgb(numbers.slice(at + 2, at + 5));
        at += numbers[at + 1] === 5 ? 2 : 4;
        style[number === 38 ? "fg" : "bg"] = colour;
      }
    }
  }

  classes() {
    const { fg, bg, bold, dim, under, invert } = this.style;
    if (fg === null && bg === null && !bold && !dim && !under && !invert) return PLAIN;
    const names = [];
    if (fg !== null) names.push(`f${fg}`);
    if (bg !== null) names.push(`b${bg}`);
    if (bold) names.push("bold");
    if (dim) names.push("faint");
    if (under) names.push("under");
    if (invert) names.push("invert");
    return names.join(" ");
  }

  schedule() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.render();
    });
  }

  render() {
    const gone = Math.min(this.first - this.dropped, this.nodes.length);
    for (const node of this.nodes.splice(0, gone)) node.remove();
    this.dropped = this.first;
    while (this.nodes.length < this.lines.length) {
      const node = h("div", { class: "line" });
      this.nodes.push(node);
      this.element.append(node);
    }
    for (const number of this.changed) {
      const index = number - this.first;
      if (index >= 0 && index < this.lines.length) fill(this.nodes[index], this.lines[index]);
    }
    this.changed.clear();
    this.pin();
  }

  fromEnd() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
  }

  pin() {
    if (this.pinned) this.scroller.scrollTop = this.scroller.scrollHeight;
  }
}

function fill(node, line) {
  const pieces = [];
  let text = "", style = PLAIN;
  for (const [letter, classes] of line) {
    if (classes !== style) {
      if (text) pieces.push(style ? h("span", { class: style }, text) : text);
      [text, style] = ["", classes];
    }
    text += letter;
  }
  if (text) pieces.push(style ? h("span", { class: style }, text) : text);
  node.replaceChildren(...(pieces.length ? pieces : ["\u200b"]));
}

// The nearest of the sixteen colours that the page has, so that both themes stay readable.
function nearest(number) {
  if (number < COLOURS) return number;
  if (number >= 232) return number < 240 ? 8 : number < 250 ? 7 : 15;
  const cube = number - 16;
  return rgb([Math.floor(cube / 36) * 51, (Math.floor(cube / 6) % 6) * 51, (cube % 6) * 51]);
}

function rgb([red = 0, green = 0, blue = 0]) {
  const most = Math.max(red, green, blue), least = Math.min(red, green, blue);
  if (most - least < 40) return most < 90 ? 8 : most < 200 ? 7 : 15;
  const bit = (value) => (value > (most + least) / 2 ? 1 : 0);
  return (most > 170 ? 8 : 0) + bit(red) + 2 * bit(green) + 4 * bit(blue);
}

export function visible(text) {
  return text.replace(ORDERING, (char) => `⟨${NAMES[char]}⟩`);
}
