// The index, and records, each inflated when it is opened.

const INDEX = JSON.parse(byId("index").textContent);
const UNITS = INDEX.units.map((unit, number) => ({ ...unit, number }));
for (const unit of UNITS) {
  [unit.task, unit.variant] = unit.key.split("::");
  unit.outcome = unit.marks.includes("e") ? "errored" : unit.marks.includes("s") ? "solved" : "unsolved";
  unit.words = `${unit.arm} ${unit.key}${unit.training ? " training" : ""}`.toLowerCase();
}
const SEEDS = new Set(UNITS.map((unit) => unit.seed)).size;

/** The record of a unit, with its long texts in place. */
async function record({ number }) {
  const chunk = byId(`unit-${number}`) ?? (await parsed(), byId(`unit-${number}`));
  if (!chunk) throw new Error("The file ends before this unit: it was not copied whole.");
  const bytes = Uint8Array.from(atob(chunk.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return expanded(JSON.parse(await new Response(stream).text()));
}

/** A record whose texts are whole, with what was played of a trial beside what is said of it. */
function expanded({ texts, ...data }) {
  const whole = (value) => {
    if (typeof value === "string") {
      return value[0] === "\u0001" ? value.slice(1).split(" ").map((part) => texts[part]).join("\n\n") : value;
    }
    if (Array.isArray(value)) return value.map(whole);
    if (!value || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, whole(each)]));
  };
  const found = whole(data);
  found.trials.forEach((trial) => Object.assign(trial, trial.trajectory)
    .steps?.forEach((step, place) => (step.number = place + 1)));
  return found;
}

/** The file is read to its end. */
function parsed() {
  if (document.readyState !== "loading") return Promise.resolve();
  return new Promise((done) => document.addEventListener("DOMContentLoaded", done, { once: true }));
}

// Where the reader is, as the address says: #/trials/ARM/TASK::VARIANT/sSEED/tTRIAL/nSTEP?task=...&q=...

const FILTERS = ["q", "arm", "task", "outcome"];
const PARTS = [...FILTERS, "beside"];

const encoded = (text) => encodeURIComponent(text).replaceAll("%3A", ":");

/** The address's parts; what cannot be read is left out. `filter` is null where the address names none. */
function parse(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view, ...rest] = path.split("/");
  const number = (letter) => {
    const part = rest.slice(2).find((each) => each[0] === letter && /^.\d{1,9}$/.test(each));
    return part ? Number(part.slice(1)) : null;
  };
  let names = [];
  try {
    names = rest.slice(0, 2).map(decodeURIComponent);
  } catch {
    // Half an escape: no unit.
  }
  const asked = new URLSearchParams(query ?? "");
  const filter = Object.fromEntries(PARTS.map((name) => [name, asked.get(name) ?? ""]));
  return {
    view,
    filter: query === undefined ? null : filter,
    unit: rest.length ? { arm: names[0], key: names[1], seed: number("s") } : null,
    trial: number("t"),
    step: number("n"),
    learnt: rest.at(-1) === "learnt",
  };
}

/** What the list shows, whichever unit is open. */
let filter = Object.fromEntries(PARTS.map((name) => [name, ""]));

function query() {
  const said = new URLSearchParams(PARTS.filter((name) => filter[name]).map((name) => [name, filter[name]]));
  return said.toString() && `?${said}`;
}

/** The address of a unit, of a trial, of a step. Without a filter: the one that is set stays. */
function address(unit, trial = null, step = null, part = "") {
  const place = [encoded(unit.arm), encoded(unit.key), `s${unit.seed}`];
  if (trial !== null) place.push(`t${trial}`);
  if (step !== null) place.push(`n${step}`);
  if (part) place.push(part);
  return `#/trials/${place.join("/")}`;
}

/** Say in the address bar where the reader is, at most a few times a second: browsers stop pages that do it more. */
let writing = 0;
function write(hash) {
  clearTimeout(writing);
  const before = location.hash;
  writing = setTimeout(() => {
    const moved = location.hash !== before; // by a click whose event has not come yet
    if (!moved && before !== hash) history.replaceState(null, "", hash);
  }, 120);
}
