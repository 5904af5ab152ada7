// Differences with their intervals, and the scores of every variant. Numbers stand as text beside what is drawn.

const FIGURES = INDEX.figures;

/** The arm that all others are compared with; empty for the comparisons that the methods are designed for. */
let baseline = "";

/** Draw the figures of all views in their boxes. */
function drawFigures() {
  for (const box of document.querySelectorAll("[data-figure]")) {
    const name = box.dataset.figure;
    if (name === "differences") drawForest(box);
    else if (name === "grid") drawGrid(box);
    else drawChart(box, FIGURES.charts[name]);
  }
}

/** Draw again whenever a box gets another width. */
function drawAtWidth(box, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === width || !box.clientWidth) return;
    width = box.clientWidth;
    draw(width);
  }).observe(box);
}

const notesOf = (notes) => notes.map((note) => el("p", { class: "note" }, note));

// The forest.

function drawForest(box) {
  const { rows, notes } = FIGURES.forests[baseline];
  const scale = findScale(rows);
  box.replaceChildren(
    el("figcaption", {}, FIGURES.titles.differences.title, baselineChoice()),
    el("ol", { class: "forest", "aria-label": FIGURES.titles.differences.alt },
      ...rows.map((row) => effectRow(row, scale)), axisRow(scale)),
    el("p", { class: "note" }, "Mean paired difference, points of 100; right of 0 the arm named first did better."),
    ...notesOf(notes));
}

/** The control that chooses what all others are compared with. */
function baselineChoice() {
  const arms = Object.keys(FIGURES.forests).filter(Boolean);
  const select = el("select", { onchange: () => setBaseline(select.value) },
    el("option", { value: "" }, "each arm's own baseline"), ...arms.map((arm) => el("option", { value: arm }, arm)));
  select.value = baseline;
  return el("label", { class: "baseline" }, "Compare with ", select);
}

function setBaseline(arm) {
  const view = document.querySelector(".view.current");
  baseline = arm;
  for (const box of document.querySelectorAll("[data-figure=differences]")) drawForest(box);
  view.querySelector(".baseline select")?.focus();
}

/** Where the plot begins and ends, and its ticks: 0 is in it, and equal scores look equal. */
function findScale(rows) {
  const ends = rows.flatMap(({ difference, low, high }) => [difference, low ?? difference, high ?? difference]);
  const low = Math.min(-1, ...ends);
  const high = Math.max(1, ...ends);
  const spare = (high - low) * 0.05;
  return { low: low - spare, high: high + spare, ticks: ticksBetween(low, high, 5) };
}

/** Round numbers from `low` to `high`, about so many. */
function ticksBetween(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}

const shareOf = (value, { low, high }) => (value - low) / (high - low);

function effectRow(row, scale) {
  const dose = doseOf(row);
  const name = row.first ? [el("b", {}, row.second), ` \u2212 ${row.first}`] : [el("b", {}, row.second)];
  return el("li", { class: row.is_decided ? "effect decided" : "effect" },
    el("div", { class: "name" }, ...name,
      row.asks ? el("small", { class: "dim" }, row.asks) : null,
      dose ? el("small", { class: "dose" }, dose) : null),
    intervalDrawing(row, scale),
    el("div", { class: "numbers" }, row.text, " ", el("small", { class: "dim" }, count(row.units, "unit"))));
}

/** The verdict, and how often the memory stood in prompts. */
function doseOf({ dose, verdict }) {
  return [verdict, dose].filter(Boolean).join("; ");
}

/** One interval, as wide as its cell: lines keep their strength however it is stretched, and a dot is a line without a
 * length. A ring has no interval. */
function intervalDrawing({ difference, low, high, is_interaction: isInteraction }, scale) {
  const x = (value) => 1000 * shareOf(value, scale);
  const upright = (value, kind) => shape("path", { class: kind, d: `M${x(value)} 0V24` });
  const dot = (kind) => shape("path", { class: kind, d: `M${x(difference)} 12h0.001` });
  const end = isInteraction ? " square" : "";
  return shape("svg", { class: "interval", viewBox: "0 0 1000 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    ...scale.ticks.map((tick) => upright(tick, tick === 0 ? "zero" : "tick")),
    low === null ? null : shape("path", { class: "bar-line", d: `M${x(low)} 12H${x(high)}` }),
    dot(`dot${end}`),
    low === null ? dot(`hole${end}`) : null);
}

function axisRow(scale) {
  const labels = scale.ticks.map((tick) => {
    const label = el("span", {}, points(tick));
    label.style.left = `${100 * shareOf(tick, scale)}%`;
    return label;
  });
  return el("li", { class: "axis", "aria-hidden": "true" }, el("div", {}, ...labels));
}

// The grid: a row a variant, a column an arm, the best score in each cell.

let onlyDiffering = false;

/** Rows of variants with the unit of each arm. */
function gridRows() {
  const rows = new Map();
  for (const unit of UNITS.filter((each) => !each.training)) {
    const name = `${unit.key} ${unit.seed}`;
    if (!rows.has(name)) rows.set(name, { unit, units: new Map() });
    rows.get(name).units.set(unit.arm, unit);
  }
  return [...rows.values()];
}

const differs = ({ units }) => new Set([...units.values()].map(bestOf)).size > 1;

function drawGrid(box) {
  const all = gridRows();
  const arms = [...new Set(UNITS.filter((unit) => !unit.training).map((unit) => unit.arm))];
  const differing = all.filter(differs);
  const tables = el("div", { class: "grid" });
  const draw = (width) => tables.replaceChildren(...scoreTables(onlyDiffering ? differing : all, arms, width));
  const tick = el("input", { type: "checkbox", checked: onlyDiffering, onchange: () => {
    onlyDiffering = tick.checked;
    draw(box.clientWidth);
  } });
  box.replaceChildren(
    el("figcaption", {}, FIGURES.titles.grid.title,
      el("label", { class: "baseline" }, tick, ` Arms differ (${differing.length} of ${all.length})`)),
    el("p", { class: "note" }, "Best score of all trials, of 100. A number leads to its trials."),
    tables);
  drawAtWidth(box, draw);
}

const LETTER_WIDTH = 7.2;
const WIDEST_NAME = 164;
const LONGEST_ARM = 9; // letters of an arm's name that is written in a line

/** How wide a column of scores is, in pixels: as the longest name of an arm, or as a score where names are upright. */
function scoreWidth(arms) {
  const longest = Math.max(...arms.map((arm) => arm.length));
  return longest > LONGEST_ARM ? 44 : Math.max(44, longest * 5.6 + 8);
}

function scoreTables(rows, arms, width) {
  if (!rows.length) return [el("p", { class: "empty" }, "All arms have the same best score on every variant.")];
  const wide = nameWidth(rows, arms, width);
  const isStacked = wide + scoreWidth(arms) * arms.length > width;
  return splitRows(rows, arms, width).map((part) => scoreTable(part, arms, wide, isStacked));
}

/** As many tables beside each other as there is room for, each with a share of the rows. */
function splitRows(rows, arms, width) {
  const least = nameWidth(rows, arms, width) + scoreWidth(arms) * arms.length + 24;
  const tables = Math.max(1, Math.min(Math.floor(width / least), Math.ceil(rows.length / 4)));
  const size = Math.ceil(rows.length / tables);
  const parts = [];
  for (let first = 0; first < rows.length; first += size) parts.push(rows.slice(first, first + size));
  return parts;
}

/** How wide the names of rows are, in pixels: less where the scores of all arms need the room. */
function nameWidth(rows, arms, width) {
  const longest = Math.max(...rows.map(({ unit }) => unit.key.length + (SEEDS > 1 ? 7 : 0)));
  const left = width - scoreWidth(arms) * arms.length;
  return Math.max(90, Math.min(WIDEST_NAME, longest * LETTER_WIDTH + 8, left));
}

/** A table of scores; where its columns have no room, each row is a card. */
function scoreTable(rows, arms, wide, isStacked) {
  const long = arms.some((arm) => arm.length > LONGEST_ARM);
  const corner = el("th", { scope: "col", role: "columnheader" }, "variant");
  corner.style.width = `${wide}px`;
  const heads = arms.map((arm) =>
    el("th", { scope: "col", role: "columnheader", class: "number" }, el("span", {}, arm)));
  const head = el("tr", { role: "row" }, corner, ...heads);
  const form = isStacked ? "scores stacked" : long ? "scores upright" : "scores";
  const table = el("table", { class: form, role: "table" }, el("thead", { role: "rowgroup" }, head),
    el("tbody", { role: "rowgroup" }, ...rows.map((row) => scoreRow(row, arms))));
  table.style.width = isStacked ? "100%" : `${wide + scoreWidth(arms) * arms.length}px`;
  return table;
}

function scoreRow({ unit, units }, arms) {
  const seed = SEEDS > 1 ? ` seed ${unit.seed}` : "";
  const name = el("th", { scope: "row", role: "rowheader" }, unit.task, el("wbr"),
    unit.variant ? el("span", { class: "dim" }, `::${unit.variant}${seed}`) : seed);
  return el("tr", { role: "row" }, name, ...arms.map((arm) => scoreCell(arm, units.get(arm))));
}

function scoreCell(arm, unit) {
  if (!unit) return el("td", { class: "number", "data-label": arm, role: "cell" });
  const best = unit.outcome === "errored" ? null : Math.max(...unit.scores);
  const said = best === null ? "errored, no score" : `best ${best}, ${OUTCOMES[unit.outcome]}`;
  return el("td", { class: `number ${levelOf(best)}`, "data-label": arm, role: "cell" },
    el("a", { href: address(unit), "aria-label": `${arm}, ${unit.key}: ${said}` }, bestOf(unit)));
}

/** The class of a score, by which it is coloured. */
function levelOf(best) {
  if (best === null) return "level-error";
  if (best < 0) return "level-below";
  return `level-${best >= 100 ? 4 : Math.ceil((best / 100) * 3)}`;
}
