// What was written after a trial, where its examples stand, and in which prompts it stood later.

const KINDS = { plan: "plan", skill: "skill", rule: "rule", entry: "entry" };
const SEVERAL = { entry: "entries" };
const LINKS = 12;

/** Counts of one memory, in words. */
const inWords = (counts) => Object.entries(counts).filter(([, number]) => number)
  .map(([name, number]) => `${number.toLocaleString("en")} ${name.replaceAll("_", " ")}`).join(" \u00b7 ") || "nothing";

const steps = (first, last) => (first === last ? `step ${first}` : `steps ${first}\u2013${last}`);

/** Stretches of steps as links to where they begin. */
function places(unit, stretches) {
  const link = ([trial, first, last]) =>
    el("a", { href: address(unit, trial, first) }, `trial ${trial}, ${steps(first, last)}`);
  const more = stretches.length - LINKS;
  return el("span", { class: "places" }, ...stretches.slice(0, LINKS).map(link), more > 0 ? ` and ${count(more, "stretch", "stretches")} more` : null);
}

function itemPart(unit, item) {
  const fact = (label, stretches) => (stretches.length
    ? el("div", {}, el("dt", {}, label), el("dd", {}, places(unit, stretches))) : null);
  return el("article", { class: "item" },
    el("h5", {}, el("span", { class: `kind r-${{ plan: "plans_from_past_attempts", skill: "skills", rule: "constitution" }[item.kind] ?? "other"}` },
      KINDS[item.kind]), " ", item.kind === "rule" ? `${item.name}${item.step ? `, before step ${item.step}` : ""}` : item.name),
    lines(item.text),
    el("dl", {}, fact("Drawn from", item.drawn), fact("Read in", item.reads),
      item.reads.length ? null : el("div", {}, el("dt", {}, "Read in"), el("dd", { class: "dim" }, "no prompt of this unit"))));
}

/** What came of the trial for the trials after it. */
function learntPart(unit, data, trial) {
  const counts = Object.entries(trial.learnt);
  const items = data.learnt.filter((item) => item.trial === trial.trial);
  const brought = trial === data.trials[0] ? data.learnt.filter((item) => item.trial < 1) : [];
  const parts = [];
  if (brought.length) {
    parts.push(folding("brought", false, { class: "brought" }, `There before the first trial: ${summed(brought)}`,
      ...brought.map((item) => itemPart(unit, item))));
  }
  parts.push(el("h4", { id: "learnt", tabindex: "-1" }, "What was learned"));
  if (counts.length) {
    parts.push(el("dl", { class: "counts" }, ...counts.map(([region, counted]) =>
      el("div", {}, el("dt", {}, labelOf(region)), el("dd", {}, inWords(counted))))));
  } else {
    parts.push(el("p", { class: "dim" }, trial.steps ? "Nothing. Memories learn nothing from a last trial, reflections are written after failed ones alone, and some methods keep none." : "Nothing: the trial errored."));
  }
  parts.push(...items.map((item) => itemPart(unit, item)));
  return el("section", { class: "learnt", "aria-label": "What was learned" }, ...parts);
}

function summed(items) {
  return Object.keys(KINDS).map((kind) => [kind, items.filter((item) => item.kind === kind).length])
    .filter(([, number]) => number).map(([kind, number]) => count(number, kind, SEVERAL[kind])).join(", ");
}

/** Parts of a prompt that no memory fills. */
const UNTAUGHT = new Set(["", "instruction", "form_of_the_answer", "examples", "about", "action_templates", "solved_examples",
  "task", "history", "progress", "notice", "observation", "possible_actions"]);

/** What stands in a region: plans, skills or entries; nothing for a region that no memory fills. */
function kindIn(data, region) {
  const has = (kind) => data.learnt.some((item) => item.kind === kind);
  if (region === "plans_from_past_attempts") return "plan";
  if (region === "skills" && (has("skill") || !has("entry"))) return "skill";
  return has("entry") && !UNTAUGHT.has(region) ? "entry" : null;
}

/** For what stands in a region at a step: where it was learned. */
function origins(unit, data, trial, number, region) {
  const kind = kindIn(data, region);
  if (!kind) return null;
  const inside = ([at, first, last]) => at === trial.trial && first <= number && number <= last;
  const names = kind === "plan" ? null : trial.steps[number - 1].recalled;
  const items = names
    ? names.map((name) => data.learnt.find((item) => item.kind === kind && item.id === name)).filter((item) => item || kind === "skill")
    : data.learnt.filter((item) => item.kind === kind && item.reads.some(inside));
  if (!items.length) return null;
  const elsewhere = data.start ? `learned before: ${data.start}` : "there before the first trial";
  const training = UNITS.find((other) => other.training && !unit.training && other.arm === unit.arm &&
    other.task === unit.task && other.seed === unit.seed);
  return el("p", { class: "origins" }, ...items.map((item, place) => {
    const name = kind === "skill" ? `Subgoal ${place + 1}` : item.name;
    if (item?.trial >= 1) {
      return el("span", {}, `${name}: `, el("a", { href: address(unit, item.trial, null, "learnt") }, `learned after trial ${item.trial}`));
    }
    return el("span", {}, `${name}: `, training ? el("a", { href: address(training) }, elsewhere) : elsewhere);
  }));
}
