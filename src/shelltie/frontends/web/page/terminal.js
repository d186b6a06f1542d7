// The terminal of the selected run: xterm.js, where the page was built with it. What a program prints
// reaches its rows and nothing else: no title, link, clipboard or palette, and no answer to a question.

import { h } from "./dom.js";
import { visible } from "./output.js";

const SCROLLBACK = 2000;
const QUEUED_MAX = 1 << 20; // characters that wait to be drawn; xterm.js is slow above
const FONT = 13, SMALLEST = 8;
const RESET = "\x18\x1bc"; // cancel, and a full reset
const LEAVE = "]"; // with ctrl, as `shelltie attach` does it
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const TITLES = [0, 1, 2], LINKS = [8], COLOURS = [4, 10, 11, 12, 104, 110, 111, 112], CLIPBOARD = [52];
const QUESTIONS = [{ final: "c" }, { prefix: ">", final: "c" }, { prefix: "=", final: "c" }, { final: "n" }, { prefix: "?", final: "n" }, { intermediates: "$", final: "p" }, { prefix: "?", intermediates: "$", final: "p" }, { prefix: ">", final: "q" }, { final: "t" }];

let xterm = null;
let shared = null;

// The one terminal of what runs, and another for a replay; null where there is none.
export const terminal = () => shared;
export const newTerminal = () => xterm && new Terminal();

export async function load() {
  styleByObjects();
  const sheet = h("link", { rel: "stylesheet", href: "/page/xterm.css" });
  const styled = new Promise((done, failed) => {
    sheet.addEventListener("load", done);
    sheet.addEventListener("error", failed);
  });
  document.head.append(sheet);
  [xterm] = await Promise.all([import("/page/xterm.mjs"), styled]);
  shared = new Terminal();
}

// xterm.js makes style elements and style attributes, which the content policy forbids, and rightly: it
// gets objects of the same use instead, which no text of a program can become.
function styleByObjects() {
  const create = document.createElement.bind(document);
  document.createElement = (name, ...more) => (name === "style" ? sheetHolder(create("i")) : create(name, ...more));
  HTMLSpanElement.prototype.setAttribute = function (name, value) {
    if (name === "style") this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
  };
}

function sheetHolder(element) {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  element.hidden = true;
  Object.defineProperty(element, "textContent", { get: () => "", set: (text) => sheet.replaceSync(text) });
  return element;
}

class Terminal {
  constructor() {
    this.element = h("div", { class: "term" });
    this.type = null; // takes what is typed, where that is allowed
    this.overrun = () => {}; // told when output was dropped, once it can take some again
    this.size = null; // rows and columns of the run's own terminal
    this.queued = 0;
    this.dropped = false;
    this.decoder = new TextDecoder();
  }

  // Puts it into the page; what it showed before is gone.
  show(parent) {
    parent.append(this.element);
    if (!this.xterm) this.open();
    this.watch?.disconnect();
    this.watch = new ResizeObserver(() => this.fit());
    for (const one of [parent, this.element]) this.watch.observe(one);
    this.reset();
  }

  open() {
    this.xterm = new xterm.Terminal({ fontFamily: getComputedStyle(document.body).getPropertyValue("--mono"), fontSize: FONT, scrollback: SCROLLBACK, disableStdin: true, theme: theme(), minimumContrastRatio: 4.5, cursorBlink: false, linkHandler: { activate() {} }, logLevel: "off" });
    const { parser } = this.xterm;
    for (const number of [...TITLES, ...LINKS, ...COLOURS, ...CLIPBOARD]) parser.registerOscHandler(number, () => true);
    for (const question of QUESTIONS) parser.registerCsiHandler(question, () => true);
    for (const intermediates of ["$", "+"]) parser.registerDcsHandler({ intermediates, final: "q" }, () => true);
    this.xterm.attachCustomKeyEventHandler((event) => this.wants(event));
    this.xterm.onData((data) => this.type?.(data));
    this.xterm.open(this.element);
    this.xterm.textarea.setAttribute("tabindex", "-1");
    new MutationObserver(() => this.paint()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => this.paint());
  }

  // Whether a key is the program's.
  wants(event) {
    if (!this.type) return false;
    if (!event.ctrlKey || event.key !== LEAVE) return true;
    event.preventDefault();
    this.xterm.blur();
    this.element.parentElement.focus();
    return false;
  }

  paint() {
    this.xterm.options.theme = theme();
  }

  reset() {
    this.decoder = new TextDecoder();
    this.dropped = false;
    this.xterm.write(RESET); // not its own reset(), which overtakes what is still to be drawn
    this.fit();
  }

  // What it may do for the run that it shows.
  setUp(size, type) {
    const key = size && `${size.rows} ${size.columns}`;
    this.type = type;
    this.xterm.options.disableStdin = !type;
    this.xterm.textarea.setAttribute("tabindex", type ? "0" : "-1");
    this.element.classList.toggle("typed", Boolean(type));
    if (key === this.key) return;
    this.key = key;
    this.size = size;
    this.xterm.options.convertEol = !size; // without a terminal there is nobody who adds the return
    this.fit();
  }

  // More than it can take is dropped, unless `all` of it is wanted.
  feed(bytes, all = false) {
    const text = visible(this.decoder.decode(bytes, { stream: true }));
    if (!all && this.queued + text.length > QUEUED_MAX) {
      this.dropped = true;
      return;
    }
    this.queued += text.length;
    this.xterm.write(text, () => {
      this.queued -= text.length;
      if (!this.dropped || this.queued) return;
      this.dropped = false;
      this.overrun();
    });
  }

  // The size of a letter in FONT. It is measured once: xterm.js rounds it, by another share in each font,
  // and a size that follows from the one before would change for ever.
  cell() {
    const screen = this.element.querySelector(".xterm-screen")?.getBoundingClientRect();
    if (!this.letter && screen?.width && this.xterm.options.fontSize === FONT) {
      this.letter = { width: screen.width / this.xterm.cols, height: screen.height / this.xterm.rows };
    }
    return this.letter;
  }

  // How many rows and columns of FONT there is room for, whether there are scrollbars just now or not.
  room() {
    const box = this.element.parentElement, cell = this.cell();
    if (!cell || !box?.offsetWidth) return null;
    const style = getComputedStyle(this.element), of = (name) => Number.parseFloat(style[name]);
    const wide = box.offsetWidth - of("paddingLeft") - of("paddingRight") - 16; // its borders, the scrollbar
    const high = box.offsetHeight - of("paddingTop") - of("paddingBottom") - 2;
    return { columns: Math.max(20, Math.floor(wide / cell.width)), rows: Math.max(5, Math.floor(high / cell.height)) };
  }

  // A terminal of a run is shown as large as it is, in letters that let it be seen; else there is as much as there is room for.
  fit() {
    const room = this.room();
    if (!room) return;
    if (!this.size) {
      this.setFont(FONT);
      this.xterm.resize(room.columns, room.rows);
      return;
    }
    const fits = Math.min(1, room.columns / this.size.columns, room.rows / this.size.rows);
    this.setFont(Math.max(SMALLEST, Math.floor(FONT * fits * 2) / 2));
    this.xterm.resize(this.size.columns, this.size.rows);
  }

  setFont(size) {
    if (this.xterm.options.fontSize !== size) this.xterm.options.fontSize = size;
  }
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const colours = { background: of("panel"), foreground: of("text"), cursor: of("accent"), cursorAccent: of("panel"), selectionBackground: of("select") };
  NAMES.forEach((name, number) => {
    colours[name] = of(number ? `f${number}` : "black");
    colours[`bright${name[0].toUpperCase()}${name.slice(1)}`] = of(`f${number + 8}`);
  });
  return colours;
}
