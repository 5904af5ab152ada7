// The list of units: search, three choices, and a row for each.

const OUTCOMES = { solved: "solved", unsolved: "not solved", errored: "errored" };

const list = { matches: [], current: null };

function listPart() {
  const choice = (name, label, options) =>
    el("label", {}, el("span", { class: "unseen" }, label),
      el("select", { id: `filter-${name}`, onchange: changed }, el("option", { value: "" }, label),
        ...options.map(([value, words]) => el("option", { value }, words))));
  const distinct = (name) => [...new Set(UNITS.map((unit) => unit[name]))].map((value) => [value, value]);
  list.status = el("span", { class: "status", role: "status" });
  list.rows = el("ol", { class: "rows", "aria-label": "Units" });
  list.box = el("div", { class: "box" }, list.rows);
  list.part = el("details", { class: "units", open: true },
    el("summary", {}, "Units ", list.status),
    el("div", { class: "filters" },
      el("input", { id: "filter-q", type: "search", placeholder: "Search arm, task, variant   /", oninput: changed,
        "aria-label": "Search arm, task, variant", autocomplete: "off", spellcheck: "false" }),
      choice("arm", "All arms", distinct("arm")),
      choice("outcome", "All outcomes", Object.entries(OUTCOMES).filter(([value]) => UNITS.some((unit) => unit.outcome === value))),
      choice("task", "All tasks", distinct("task"))),
    list.box);
  return list.part;
}

/** The filter as the address has it, in the fields and in the rows. */
function applyFilter() {
  for (const name of FILTERS) {
    const field = byId(`filter-${name}`);
    field.value = filter[name];
    if (field.value !== filter[name]) filter = { ...filter, [name]: "" };
  }
  refill();
}

function refill() {
  const wanted = filter.q.toLowerCase().split(/\s+/).filter(Boolean);
  list.matches = UNITS.filter((unit) =>
    ["arm", "task", "outcome"].every((name) => !filter[name] || unit[name] === filter[name]) && wanted.every((word) => unit.words.includes(word)));
  const none = el("li", { class: "empty" }, UNITS.length ? "No unit is like this." : "No unit is finished yet.");
  list.rows.replaceChildren(...(list.matches.length ? list.matches.map(row) : [none]));
  list.box.scrollTop = 0;
  const all = UNITS.length.toLocaleString("en");
  list.status.textContent = list.matches.length === UNITS.length
    ? all : `${list.matches.length.toLocaleString("en")} of ${all}`;
}

const bestOf = (unit) => (unit.outcome === "errored" ? "err" : `${Math.max(...unit.scores)}`);

function row(unit) {
  const about = [unit.arm, unit.training && "training", SEEDS > 1 && `seed ${unit.seed}`].filter(Boolean).join(" · ");
  const said = unit.outcome === "errored" ? "errored, no score" : `best ${bestOf(unit)}, ${OUTCOMES[unit.outcome]}`;
  return el("li", {},
    el("a", { href: address(unit), "data-unit": unit.number, class: unit.outcome, "aria-current": unit === list.current && "true" },
    el("span", { class: "key" }, el("span", {}, unit.task), unit.variant && el("span", { class: "dim" }, `::${unit.variant}`)),
    el("span", { class: "best", "aria-hidden": "true" }, bestOf(unit)),
    el("span", { class: "about" }, about), el("span", { class: "unseen" }, said)));
}

/** The unit that is open, marked; on a narrow page the list folds up so that the unit is seen. */
function markCurrent(unit) {
  const before = list.rows.querySelector("[aria-current]");
  before?.removeAttribute("aria-current");
  list.current = unit;
  if (!unit) return;
  const link = list.rows.querySelector(`[data-unit="${unit.number}"]`);
  if (!link) return;
  link.setAttribute("aria-current", "true");
  reveal(list.box, link);
}

function changed() {
  filter = { ...filter, ...Object.fromEntries(FILTERS.map((name) => [name, byId(`filter-${name}`).value])) };
  refill();
  write(whole());
}
