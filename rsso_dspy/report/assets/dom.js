// Elements made of names and texts. Whatever is shown becomes a text node: nothing is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

const el = (tag, attributes = {}, ...children) => make(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => make(document.createElementNS(SVG, tag), attributes, children);
const byId = (id) => document.getElementById(id);

const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
const points = (number) => (number > 0 ? `+${number}` : number < 0 ? `\u2212${-number}` : "0");

const LONGEST = 20000;

/** A text with its lines. A very long one is cut, with a button for the rest. */
function lines(text, attributes = {}) {
  const block = el("pre", { class: text.length > 6000 ? "long" : null, ...attributes }, text.slice(0, LONGEST));
  if (text.length <= LONGEST) return block;
  const button = el("button", { type: "button", class: "more", onclick: () => {
    block.textContent = text;
    button.remove();
  } }, `Show all ${text.length.toLocaleString("en")} characters`);
  return el("div", {}, block, button);
}

/** A part that opens and closes, and stays so from step to step. */
const opened = new Map();
function folding(name, open, attributes, summary, ...children) {
  const part = el("details", attributes, el("summary", {}, ...[summary].flat()), ...children);
  part.open = opened.get(name) ?? open;
  part.addEventListener("toggle", () => opened.set(name, part.open));
  return part;
}
