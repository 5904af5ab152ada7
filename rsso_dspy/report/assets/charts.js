// Curves: means after each trial, and shares of units over scores. What is drawn stands below as a table too.

const HEIGHT = 250;
const MARGIN = { left: 40, right: 14, top: 28, bottom: 36 };
const DODGE = 3; // between bars of neighbouring curves

/** The four marks of curves, around a place; a second cue beside the colour. */
const MARKS = [
  (x, y) => `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z`,
  (x, y) => `M${x - 3.5} ${y - 3.5}h7v7h-7Z`,
  (x, y) => `M${x - 4.5} ${y + 3.5}h9l-4.5 -8Z`,
  (x, y) => `M${x} ${y - 5}l5 5l-5 5l-5 -5Z`,
];

function drawChart(box, chart) {
  const drawing = el("div", { class: "plot" });
  box.replaceChildren(
    el("figcaption", {}, chart.title),
    drawing,
    legendOf(chart),
    ...notesOf(chart.notes),
    numbersOf(chart));
  drawAtWidth(drawing, (width) => drawing.replaceChildren(plotOf(chart, width)));
}

function plotOf(chart, width) {
  const everything = chart.curves.flatMap((curve) => curve.points);
  const xs = everything.map((point) => point.x);
  const ys = everything.flatMap(({ y, low, high }) => [y, low ?? y, high ?? y]);
  const across = { low: Math.min(...xs), high: Math.max(...xs) };
  const aside = chart.is_stepped ? 0 : 0.12 * Math.max(1, across.high - across.low);
  const horizontal = { low: across.low - aside, high: across.high + aside };
  const vertical = { low: chart.low ?? Math.min(...ys), high: chart.high ?? Math.max(...ys) };
  if (vertical.high - vertical.low < 2) { // so that equal scores look equal
    vertical.low -= 1;
    vertical.high += 1;
  }
  const x = (value) => MARGIN.left + (width - MARGIN.left - MARGIN.right) * shareOf(value, horizontal);
  const y = (value) => HEIGHT - MARGIN.bottom - (HEIGHT - MARGIN.top - MARGIN.bottom) * shareOf(value, vertical);
  const steps = ticksBetween(across.low, across.high, 5).filter((tick) => chart.is_stepped || Number.isInteger(tick));
  return shape("svg", { class: "chart", width, height: HEIGHT, role: "img", "aria-label": sayChart(chart) },
    ...ticksBetween(vertical.low, vertical.high, 6).map((tick) => levelLine(tick, y(tick), width)),
    ...steps.map((tick) => middleText(x(tick), HEIGHT - MARGIN.bottom + 16, `${tick}`)),
    middleText((MARGIN.left + width) / 2, HEIGHT - 4, chart.x_label),
    shape("text", { x: 0, y: 12 }, chart.y_label),
    ...chart.curves.map((curve, place) => curveDrawing(chart, curve, place, x, y)));
}

const middleText = (x, y, text) => shape("text", { x, y, "text-anchor": "middle" }, text);

function levelLine(tick, height, width) {
  return shape("g", {}, shape("path", { class: "tick", d: `M${MARGIN.left} ${height}H${width - MARGIN.right}` }),
    shape("text", { x: MARGIN.left - 6, y: height + 4, "text-anchor": "end" }, `${tick}`));
}

function curveDrawing(chart, curve, place, x, y) {
  const aside = (place - (chart.curves.length - 1) / 2) * DODGE;
  const bars = curve.points.filter((point) => point.low !== null).map((point) =>
    shape("path", { class: "error-bar", d: `M${x(point.x) + aside} ${y(point.low)}V${y(point.high)}` }));
  const mark = MARKS[place % MARKS.length];
  const marks = curve.points.map((point) => shape("path", { class: "mark", d: mark(x(point.x), y(point.y)) },
    shape("title", {}, `${curve.name}: ${numberOf(point.y)} at ${point.x}`)));
  const dashes = curve.is_published ? "2 3" : isCovered(chart, place) ? "7 7" : null;
  return shape("g", { stroke: curve.colour, fill: curve.colour }, ...bars,
    shape("path", { class: "curve", d: pathOf(chart, curve.points, x, y), "stroke-dasharray": dashes }),
    ...(chart.is_stepped ? [] : marks));
}

/** A curve's line: straight, or level up to the next point. */
function pathOf(chart, points, x, y) {
  return points.map((point, place) => {
    if (!place) return `M${x(point.x)} ${y(point.y)}`;
    return chart.is_stepped ? `V${y(point.y)}H${x(point.x)}` : `L${x(point.x)} ${y(point.y)}`;
  }).join("");
}

/** Whether a curve lies on one before it: it is drawn in dashes, so that both are seen. */
function isCovered(chart, place) {
  const heights = ({ points }) => points.map((point) => `${point.x} ${point.y}`).join();
  const own = heights(chart.curves[place]);
  return chart.curves.slice(0, place).some((curve) => heights(curve) === own);
}

function legendOf({ curves, is_stepped: isStepped }) {
  return el("ul", { class: "legend", "aria-hidden": "true" }, ...curves.map((curve, place) => el("li", {},
    shape("svg", { width: 26, height: 12, stroke: curve.colour, fill: curve.colour },
      shape("path", { class: "curve", d: "M0 6H26", "stroke-dasharray": curve.is_published ? "2 3" : null }),
      isStepped ? null : shape("path", { class: "mark", d: MARKS[place % MARKS.length](13, 6) })),
    ` ${curve.name}`)));
}

const numberOf = (value) => value.toFixed(1);

/** The chart for who does not see it: where each curve ends. */
function sayChart({ alt, curves }) {
  const drawn = curves.filter((curve) => curve.points.length);
  const ends = drawn.map(({ name, points }) => `${name} ${numberOf(points.at(-1).y)}`);
  return `${alt} Last points: ${ends.join(", ")}.`;
}

/** All points as a table. */
function numbersOf(chart) {
  const known = chart.curves.flatMap(({ points }) => points.map((point) => point.x));
  const places = [...new Set(known)].sort((a, b) => a - b);
  const heads = places.map((place) => el("th", { scope: "col", class: "number" }, `${place}`));
  const row = ({ name, points }) => el("tr", {}, el("th", { scope: "row" }, name), ...places.map((place) => {
    const point = points.find((each) => each.x === place);
    return el("td", { class: "number" }, point ? numberOf(point.y) : "");
  }));
  return el("details", { class: "numbers" }, el("summary", {}, "As a table"),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${chart.title}, as a table` },
      el("table", {},
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, chart.x_label), ...heads)),
        el("tbody", {}, ...chart.curves.map(row)))));
}
