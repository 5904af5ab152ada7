// One unit: its header, its trials, and the walk through the steps of one.

const ENDINGS = {
  solved: "solved",
  failed: "ended by the environment",
  budget: "out of steps",
  stalled: "a step took too long",
  repeated: "the same action too often",
  exhausted: "went in circles",
};

/** What is open: unit, its record, trial and step. */
const open = { unit: null, data: null, trial: null, step: null };

/** Counts the places of this view that were asked for: what comes late for an earlier one is dropped. */
let opening = 0;

/** Show a place of the address: load the unit when it is another, then draw what changed. */
async function showUnit(place) {
  const mine = opening;
  const { arm, key, seed } = place.unit;
  const unit = UNITS.find((each) => each.arm === arm && each.key === key && (seed === null || each.seed === seed));
  markCurrent(unit ?? null);
  if (!unit) return blank("There is no such unit in this file. Choose one from the list.");
  if (unit !== open.unit) {
    const slow = setTimeout(() => mine === opening && blank("Opening\u2026"), 150);
    try {
      const data = await record(unit);
      if (mine !== opening) return null;
      Object.assign(open, { unit, data, trial: null, step: null });
    } catch (error) {
      return mine === opening ? blank(error.message) : null;
    } finally {
      clearTimeout(slow);
    }
    fold();
    drawUnit();
  }
  await loadBeside();
  if (mine !== opening) return null;
  if (!open.data.trials.length) return null;
  const trial = open.data.trials.find((each) => each.trial === place.trial) ?? open.data.trials[0];
  if (trial !== open.trial) drawTrial(trial);
  walk(place.step ?? (place.learnt ? trial.steps?.length : 1) ?? 1);
  if (place.learnt) byId("learnt")?.focus();
  return null;
}

function blank(text) {
  Object.assign(open, { unit: null, data: null, trial: null, step: null });
  byId("unit").replaceChildren(el("p", { class: "empty" }, text));
  return null;
}

function drawUnit() {
  const { unit, data } = open;
  const others = UNITS.filter((each) => each !== unit && each.key === unit.key && each.seed === unit.seed);
  const budget = [...new Set(data.budgets)];
  const facts = [data.model, data.protocol, data.program, `seed ${unit.seed}`,
    budget.length === 1 ? `at most ${count(budget[0], "step")} a trial` : null,
    data.start ? `started from ${data.start}` : null];
  byId("unit").replaceChildren(
    el("header", { class: "unit-head" },
      el("h2", {}, unit.task, unit.variant && el("span", { class: "dim" }, `::${unit.variant}`), " ",
        el("span", { class: "arm" }, unit.arm), unit.training ? el("span", { class: "badge" }, "training") : null),
      el("p", { class: "dim facts-line" }, ...facts.filter(Boolean).map((fact) => el("span", {}, fact))),
      others.length ? el("p", { class: "others" }, "Also played by: ", 
        ...others.map((other) => el("a", { href: address(other), class: other.outcome }, other.arm, " ", el("b", {}, bestOf(other)))), besideChoice(others)) : null),
    el("nav", { class: "strip", "aria-label": unit.training ? "Episodes" : "Trials" }, ...data.trials.map(stripPart)),
    el("div", { id: "trial" }));
}

function stripPart(trial) {
  const kind = trial.error !== null ? "errored" : trial.solved ? "solved" : "unsolved";
  const said = trial.error !== null ? "error" : ENDINGS[trial.outcome] ?? trial.outcome;
  return el("a", { href: address(open.unit, trial.trial), class: kind, "data-trial": trial.trial,
    "aria-label": `Trial ${trial.trial}: ${trial.error !== null ? "error, no score" : `${count(trial.accumulator, "point")}, ${said}`}` },
  el("span", { class: "dim" }, `${trial.trial}`), el("b", {}, trial.error !== null ? "\u00d7" : `${trial.accumulator}`),
  el("small", {}, said));
}

function drawTrial(trial) {
  Object.assign(open, { trial, step: null });
  for (const link of document.querySelectorAll(".strip a")) {
    link.setAttribute("aria-current", String(Number(link.dataset.trial) === trial.trial));
  }
  byId("trial").replaceChildren(...(trial.error !== null ? erroredTrial(trial) : playedTrial(trial)));
  drawBeside();
}

function erroredTrial(trial) {
  const failures = Object.entries(trial.failures).map(([kind, number]) => `${kind} ${number}`).join(", ");
  return [el("h3", {}, `Trial ${trial.trial}: error, no score`),
    el("div", { class: "error" }, lines(trial.error)),
    failures ? el("p", { class: "dim" }, `Requests that failed: ${failures}`) : null,
    learntPart(open.unit, open.data, trial)].filter(Boolean);
}

function playedTrial(trial) {
  const { unit, data } = open;
  const budget = data.budgets[data.trials.indexOf(trial)];
  const spent = Object.entries(trial.usage).map(([role, used]) =>
    `${role} ${count(used.calls, "call")}, ${used.input.toLocaleString("en")} tokens in, ${used.output.toLocaleString("en")} out`);
  if (trial.seconds) spent.push(`${trial.seconds.toLocaleString("en")} s in all`);
  const unknown = !trial.steps.length && data.why_not;
  const facts = [unknown ? null : `${trial.steps.length} of ${count(budget ?? trial.steps.length, "step")}`,
    `environment score ${trial.environment_score}`, trial.points_at_reset ? `${count(trial.points_at_reset, "point")} held at reset, not earned` : null,
    trial.invalid_actions ? `${count(trial.invalid_actions, "action")} not understood` : null,
    trial.asked_back ? `${count(trial.asked_back, "action")} asked back` : null,
    trial.no_effect ? `${count(trial.no_effect, "action")} without effect` : null,
    trial.replayed ? "played again after the simulator died" : null];
  open.learnt = learntPart(unit, data, trial);
  const items = data.learnt.filter((item) => item.trial === trial.trial);
  return [
    el("div", { class: "trial-head" },
      el("h3", {}, `Trial ${trial.trial}`, unit.training ? ` (${trial.variant.task}::${trial.variant.index})` : "", ": ",
        el("b", { class: trial.solved ? "good" : "" }, count(trial.accumulator, "point")), `, ${ENDINGS[trial.outcome] ?? trial.outcome}`),
      el("p", { class: "dim facts-line" }, ...facts.filter(Boolean).map((fact) => el("span", {}, fact)),
        items.length ? el("a", { href: address(unit, trial.trial, null, "learnt") }, `learned: ${summed(items)}`) : null),
      spent.length ? el("details", { class: "spent" }, el("summary", {}, trial.seconds ? "Calls, tokens and time" : "Calls and tokens"),
        ...spent.map((line) => el("p", { class: "dim" }, line))) : null),
    unknown ? el("p", { class: "empty" }, `No step of this trial is in the page: ${data.why_not}.`)
      : el("div", { class: "walker" }, walkerBar(), stepList(trial), el("div", { id: "step" })),
    el("div", { id: "beside-box" }),
    open.learnt,
  ];
}

function walkerBar() {
  const button = (label, words, by) =>
    el("button", { type: "button", title: words, "aria-label": words, onclick: () => go(open.step + by) }, label);
  open.where = el("span", { class: "where", role: "status" });
  return el("div", { class: "stepper" },
    button("\u2190", "Step before (left arrow)", -1), open.where, button("\u2192", "Next step (right arrow)", 1));
}

function stepList(trial) {
  const rows = trial.steps.map((step) => el("li", {}, el("a", { href: address(open.unit, trial.trial, step.number),
    "data-step": step.number, class: step.understood ? "" : "missed" },
  el("span", { class: "dim" }, `${step.number}`), el("span", { class: "action" }, step.action || "(malformed answer)"),
  step.reward ? el("b", { class: step.reward > 0 ? "good" : "bad" }, points(step.reward)) : null)));
  open.rows = el("ol", { class: "box", "aria-label": "Steps" }, ...rows);
  return el("details", { class: "steps", open: !narrow.matches }, el("summary", {}, "Steps"), open.rows);
}

/** Draw a step of the open trial; one out of range is the nearest there is. */
function walk(wanted) {
  const { data, trial } = open;
  if (!trial?.steps || !byId("step")) return;
  const number = Math.max(1, Math.min(trial.steps.length, wanted));
  open.step = number;
  const step = trial.steps[number - 1];
  if (!step) {
    byId("step").replaceChildren(el("p", { class: "empty" }, "The trial ended before its first step."));
    return;
  }
  open.where.textContent = `Step ${number} of ${trial.steps.length}`;
  open.rows.querySelector("[aria-current]")?.removeAttribute("aria-current");
  const link = open.rows.querySelector(`[data-step="${number}"]`);
  link.setAttribute("aria-current", "step");
  reveal(open.rows, link);
  byId("step").replaceChildren(
    el("div", {}, promptPart(data, trial, number, (region) => origins(open.unit, data, trial, number, region)),
      exchangesPart(data, trial, number)),
    el("div", { class: "after" }, answerPart(step), resultPart(step)));
}

/** What the actor answered, as it is, and the action that was read in it. */
function answerPart(step) {
  const part = (label, ...said) => el("div", {}, el("dt", {}, label), el("dd", {}, ...said));
  const acting = actingAt(open.trial, step.number);
  const cost = acting ? factsOf(acting) : [];
  const said = acting ? acting.answer : step.unread || step.reasoning;
  return el("section", { class: "answer", "aria-label": "Answer" }, el("h4", {}, "Answer ",
    cost.length ? el("span", { class: "dim cost" }, cost.join(", ")) : null,
    step.malformed ? el("span", { class: "badge bad" }, "malformed: it held no action, nothing was sent") : null),
  said ? lines(said) : null,
  el("dl", {},
    step.malformed ? null : part(step.proposed === step.action ? "Action" : "Action as written", el("code", {}, step.proposed)),
    step.cut ? part("Given as the action", lines(step.cut)) : null,
    step.malformed || step.proposed === step.action ? null : part("Action as sent", el("code", {}, step.action))));
}

function resultPart(step) {
  const { observation, look, inventory } = step.state;
  return el("section", { class: "result", "aria-label": "What came of it" }, el("h4", {}, "What came of it ",
    step.reward ? el("span", { class: `badge ${step.reward > 0 ? "good" : "bad"}` }, `${points(step.reward)} points`) : null,
    step.asked_back ? el("span", { class: "badge bad" }, "asked which action was meant") : null,
    step.no_effect ? el("span", { class: "badge bad" }, "no effect") : null,
    step.understood ? null : el("span", { class: "badge bad" }, "not understood"),
    el("span", { class: "dim" }, `environment score ${step.score}`)),
  lines(observation),
  look ? folding("look", false, {}, "Surroundings", lines(look)) : null,
  inventory ? folding("inventory", false, {}, "Inventory", lines(inventory)) : null);
}

/** Go to a step in the present entry of the history. */
function go(step) {
  if (!open.trial?.steps?.length) return;
  walk(step);
  write(whole());
}

// Another arm at the same unit, trial by trial and step by step, next to the one that is open.

const beside = { other: null, data: null };

/** The choice of who stands beside, for units that others played too. */
function besideChoice(others) {
  const select = el("select", { id: "beside", "aria-label": "Side by side with", onchange: () => setBeside(select.value) },
    el("option", { value: "" }, "Side by side with\u2026"), ...others.map((other) => el("option", { value: other.arm }, other.arm)));
  select.value = others.some((other) => other.arm === filter.beside) ? filter.beside : "";
  return select;
}

async function setBeside(arm) {
  filter = { ...filter, beside: arm };
  write(whole());
  await loadBeside();
  if (open.trial) drawBeside();
}

/** Load the record of the arm that is to stand beside; none where this unit has none. */
async function loadBeside() {
  const { unit } = open;
  const other = filter.beside && UNITS.find((each) => each !== unit && each.arm === filter.beside &&
    each.key === unit.key && each.seed === unit.seed);
  if (!other) {
    Object.assign(beside, { other: null, data: null });
    return;
  }
  if (beside.other === other) return;
  try {
    const data = await record(other);
    if (open.unit === unit) Object.assign(beside, { other, data });
  } catch {
    Object.assign(beside, { other: null, data: null });
  }
}

function drawBeside() {
  const box = byId("beside-box");
  if (!box) return;
  const { trial, unit } = open;
  if (!beside.data || !trial) {
    box.replaceChildren();
    return;
  }
  const there = beside.data.trials.find((each) => each.trial === trial.trial);
  const rows = Math.max(trial.steps?.length ?? 0, there?.steps?.length ?? 0);
  const head = (of, its) => el("th", { scope: "col" }, of.arm, el("small", { class: "dim" },
    !its ? " has no such trial" : its.error !== null ? " error" : ` ${count(its.accumulator, "point")}, ${ENDINGS[its.outcome] ?? its.outcome}`));
  const cell = (of, its, number) => {
    const step = its?.steps?.[number - 1];
    if (!step) return el("td", {});
    return el("td", {}, el("a", { href: address(of, its.trial, number) + query() }, step.action || "(malformed answer)"),
      step.reward ? el("b", { class: step.reward > 0 ? "good" : "bad" }, ` ${points(step.reward)}`) : null);
  };
  const first = firstDifference(trial, there);
  box.replaceChildren(el("section", { class: "beside", "aria-label": "Side by side" },
    el("h4", {}, `Trial ${trial.trial}, side by side `, el("span", { class: "dim" },
      first ? `the actions differ from step ${first} on` : "the actions are the same")),
    el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "step"), head(unit, trial), head(beside.other, there))),
      el("tbody", {}, ...Array.from({ length: rows }, (_, place) => {
        const number = place + 1;
        const same = trial.steps?.[place]?.action === there?.steps?.[place]?.action;
        return el("tr", { class: same ? "same" : "differs" }, el("th", { scope: "row" }, `${number}`),
          cell(unit, trial, number), cell(beside.other, there, number));
      })))));
}

function firstDifference(one, other) {
  const a = (one?.steps ?? []).map((step) => step.action);
  const b = (other?.steps ?? []).map((step) => step.action);
  const place = Array.from({ length: Math.max(a.length, b.length) }).findIndex((_, at) => a[at] !== b[at]);
  return place < 0 ? 0 : place + 1;
}
