// The index, and records, each inflated when it is opened.

const INDEX = JSON.parse(byId("index").textContent);
const UNITS = INDEX.units.map((unit, number) => ({ ...unit, number, task: unit.key.split("::")[0] }));
for (const unit of UNITS) {
  unit.outcome = unit.marks.includes("e") ? "errored" : unit.marks.includes("s") ? "solved" : "unsolved";
  unit.has ??= "";
  unit.words = `${unit.arm} ${unit.key}${unit.training ? " training" : ""}`.toLowerCase();
}
const SEEDS = new Set(UNITS.map((unit) => unit.seed)).size;

const KEPT = 8;
const kept = new Map();

/** The record of a unit, as it was written. The last few stay inflated. */
function record(unit) {
  const known = kept.get(unit.number) ?? inflated(unit.number);
  kept.delete(unit.number);
  kept.set(unit.number, known);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  known.catch(() => kept.delete(unit.number));
  return known;
}

async function inflated(number) {
  if (typeof DecompressionStream !== "function") {
    throw new Error(
      "This browser cannot unpack the trials. Use Chrome or Edge 80, Firefox 113, Safari 16.4, or a later one."
    );
  }
  const chunk = byId(`unit-${number}`) ?? (await parsed(), byId(`unit-${number}`));
  if (!chunk) throw new Error("The file ends before this unit: it was not copied whole.");
  const bytes = Uint8Array.from(atob(chunk.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** The file is read to its end. */
function parsed() {
  if (document.readyState !== "loading") return Promise.resolve();
  return new Promise((done) => document.addEventListener("DOMContentLoaded", done, { once: true }));
}
