// Views by address, keys, colours, and tables that sort.

const narrow = matchMedia("(max-width: 760px)");
const VIEWS = [...document.querySelectorAll(".view")];
const FIRST = VIEWS[0].dataset.view;
for (const view of VIEWS) view.removeAttribute("id"); // an address would make the browser scroll to it

/** The whole address of where the reader is. */
function whole() {
  const { unit, trial, step } = open;
  return (unit ? address(unit, trial?.trial ?? null, trial?.steps?.length ? step : null) : "#/trials") + query();
}

function show() {
  clearTimeout(writing);
  const place = parse(location.hash);
  const name = VIEWS.some((view) => view.dataset.view === place.view) ? place.view : FIRST;
  const before = document.body.dataset.view;
  document.body.dataset.view = name;
  for (const view of VIEWS) view.classList.toggle("current", view.dataset.view === name);
  for (const link of document.querySelectorAll(".bar nav a")) {
    if (link.getAttribute("href") === `#/${name}`) {
      link.setAttribute("aria-current", "page");
      link.parentElement.scrollLeft = link.offsetLeft - link.parentElement.offsetLeft - 40;
    } else {
      link.removeAttribute("aria-current");
    }
  }
  if (before !== name) scrollTo(0, 0);
  if (name === "trials") showTrials(place);
}

async function showTrials(place) {
  const mine = ++opening;
  if (place.filter || !byId("unit").hasChildNodes()) {
    filter = place.filter ?? filter;
    applyFilter();
  }
  if (place.unit) {
    await showUnit(place);
    if (mine !== opening || document.body.dataset.view !== "trials") return; // the reader went on
  } else if (open.unit && place.filter === null) {
    markCurrent(open.unit);
  } else {
    markCurrent(null);
    blank(UNITS.length ? "Choose a unit from the list to read its trials step by step." : "No unit is finished yet.");
    list.part.open = true;
  }
  if (!place.unit || place.filter === null) write(place.unit && !open.unit ? location.hash : whole());
}

/** On a narrow page the list gives way to what was chosen from it. */
function fold() {
  if (narrow.matches) list.part.open = false;
}

// Keys.

const KEYS = {
  ArrowRight: ["\u2192 or j", "next step", () => go(open.step + 1)],
  j: [null, null, () => go(open.step + 1)],
  ArrowLeft: ["\u2190 or k", "step before", () => go(open.step - 1)],
  k: [null, null, () => go(open.step - 1)],
  Home: ["Home", "first step", () => go(1)],
  End: ["End", "last step", () => go(Infinity)],
  "]": ["]", "next trial", () => turn(1)],
  "[": ["[", "trial before", () => turn(-1)],
  n: ["n", "next unit of the list", () => nextUnit(1)],
  p: ["p", "unit before", () => nextUnit(-1)],
  "/": ["/", "search the units", search],
  "?": ["?", "these keys", () => keys.showModal()],
};

/** Keys that need no open trial. */
const EVERYWHERE = new Set(["/", "?"]);
const IN_THE_LIST = new Set(["n", "p"]);

function turn(by) {
  if (!open.trial) return;
  const next = open.data.trials[open.data.trials.indexOf(open.trial) + by];
  if (next) location.hash = address(open.unit, next.trial) + query();
}

/** Open the unit that follows in the list, as it is filtered now, also while the one that was chosen is still opening. */
function nextUnit(by) {
  const at = list.matches.indexOf(list.current);
  const next = at < 0 ? list.matches[0] : list.matches[at + by];
  if (next) location.hash = address(next) + query();
}

function search() {
  if (document.body.dataset.view !== "trials") location.hash = "#/trials";
  list.part.open = true;
  requestAnimationFrame(() => {
    byId("filter-q").focus();
    byId("filter-q").select();
  });
}

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented || keys.open) return;
  const typing = event.target.closest?.("input, select, textarea, [contenteditable]");
  if (typing) {
    if (event.key === "Escape") typing.blur();
    return;
  }
  const here = document.body.dataset.view === "trials" && (open.trial || IN_THE_LIST.has(event.key));
  if (!Object.hasOwn(KEYS, event.key) || !(here || EVERYWHERE.has(event.key))) return;
  event.preventDefault();
  KEYS[event.key][2]();
}

const keys = el("dialog", { id: "keys", "aria-labelledby": "keys-title", onclick: (event) => {
  if (event.target === keys) keys.close();
} }, el("div", {}, el("h2", { id: "keys-title" }, "Keys"),
  el("dl", {}, ...Object.values(KEYS).filter(([key]) => key).map(([key, words]) =>
    el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, words)))),
  el("p", { class: "dim" }, "In the list of units, up and down move from one to the next. Escape leaves a field."),
  el("button", { type: "button", onclick: () => keys.close() }, "Close")));

// Colours.

const theme = byId("theme");
const dark = () => document.documentElement.dataset.theme === "dark" ||
  (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);

theme.addEventListener("click", () => {
  const next = dark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  theme.setAttribute("aria-pressed", next === "dark");
  try {
    localStorage.setItem("rsso-dspy-theme", next);
  } catch {
    // Not kept: it holds until the page is closed.
  }
});

// Tables: a click on a heading sorts, best first; once more turns it round. Totals stay at the end.

function sortable(table) {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = el("button", { type: "button" }, heading.textContent);
    button.addEventListener("click", () => sort(table, heading, column));
    heading.replaceChildren(button);
  });
}

function sort(table, heading, column) {
  const numbers = heading.classList.contains("number");
  const before = heading.getAttribute("aria-sort");
  const down = before ? before === "ascending" : numbers;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = (row) => {
    const cell = row.cells[column];
    return numbers ? (cell.dataset.value === undefined ? null : Number(cell.dataset.value)) : cell.textContent;
  };
  const order = (one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === null || b === null) return (a === null) - (b === null);
    const by = numbers ? a - b : a.localeCompare(b, "en", { numeric: true });
    return down ? -by : by;
  };
  const rows = [...table.tBodies[0].rows];
  const totals = rows.filter((row) => row.classList.contains("total"));
  table.tBodies[0].append(...rows.filter((row) => !totals.includes(row)).sort(order), ...totals);
}

byId("viewer").append(listPart(), el("div", { id: "unit", class: "unit" }));
byId("viewer").hidden = false;
document.body.append(keys);
theme.setAttribute("aria-pressed", dark());
byId("keys-open").addEventListener("click", () => keys.showModal());
document.querySelectorAll(".sheet table").forEach(sortable);
document.addEventListener("keydown", pressed);
addEventListener("hashchange", show);
show();
