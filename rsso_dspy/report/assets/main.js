// Views by address, keys.

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
  document.body.classList.toggle("later", name !== FIRST);
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
  ArrowRight: () => go(open.step + 1),
  ArrowLeft: () => go(open.step - 1),
  "]": () => turn(1),
  "[": () => turn(-1),
  n: () => nextUnit(1),
  p: () => nextUnit(-1),
  "/": search,
};

/** Keys that need no open trial. */
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
  if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
  const typing = event.target.closest?.("input, select, textarea, [contenteditable]");
  if (typing) {
    if (event.key === "Escape") typing.blur();
    return;
  }
  const here = document.body.dataset.view === "trials" && (open.trial || IN_THE_LIST.has(event.key));
  if (!Object.hasOwn(KEYS, event.key) || !(here || event.key === "/")) return;
  event.preventDefault();
  KEYS[event.key]();
}

byId("viewer").append(listPart(), el("div", { id: "unit", class: "unit" }));
byId("viewer").hidden = false;
document.addEventListener("keydown", pressed);
addEventListener("hashchange", show);
show();
drawFigures();
