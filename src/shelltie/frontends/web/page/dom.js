// Elements from text alone: nothing on this page is ever parsed as markup.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

export const $ = (id) => document.getElementById(id);

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Replaces the children only where they changed: what a person reads or has focused stays.
export function setChildren(parent, children) {
  children.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
}

// A button that does something only when it is held; the bar in it fills meanwhile.
export function holdable(button, milliseconds, act) {
  let timer = null;
  const begin = () => {
    if (button.disabled || timer !== null) return;
    button.classList.add("holding");
    timer = setTimeout(() => { end(); act(); }, milliseconds);
  };
  const end = () => {
    clearTimeout(timer);
    timer = null;
    button.classList.remove("holding");
  };
  button.style.setProperty("--hold", `${milliseconds}ms`);
  button.addEventListener("pointerdown", begin);
  for (const name of ["pointerup", "pointerleave", "pointercancel", "blur", "keyup"]) button.addEventListener(name, end);
  button.addEventListener("keydown", (event) => { if (["Enter", " "].includes(event.key)) { event.preventDefault(); begin(); } });
  return { begin, end };
}
