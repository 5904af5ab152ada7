// Elements made of names and texts. Whatever is shown becomes a text node: nothing is ever parsed as markup.

const el = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

/** The same for a drawing. */
const shape = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

const byId = (id) => document.getElementById(id);

const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
const points = (number) => (number > 0 ? `+${number}` : number < 0 ? `\u2212${-number}` : "0");

/** A text with its lines; a long one scrolls by itself. */
const lines = (text, attributes = {}) => el("pre", { class: text.length > 6000 ? "long" : null, ...attributes }, text);

/** Scroll a box, if need be, so that a part of it is seen. */
function reveal(box, part) {
  const top = part.offsetTop - box.offsetTop;
  if (top < box.scrollTop || top + part.offsetHeight > box.scrollTop + box.clientHeight) {
    box.scrollTop = top - box.clientHeight / 2;
  }
}

/** A part that opens and closes, and stays so from step to step. */
const opened = new Map();
function folding(name, open, attributes, summary, ...children) {
  const part = el("details", attributes, el("summary", {}, ...[summary].flat()), ...children);
  part.open = opened.get(name) ?? open;
  part.addEventListener("toggle", () => opened.set(name, part.open));
  return part;
}
