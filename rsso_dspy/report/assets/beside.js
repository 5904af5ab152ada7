// Another arm at the same unit, trial by trial and step by step, next to the one that is open.

const beside = { other: null, data: null };

/** The choice of who stands beside, for units that others played too. */
function besideChoice(others) {
  const select = el("select", { id: "beside", "aria-label": "Compare with", onchange: () => setBeside(select.value) },
    el("option", { value: "" }, "Compare with\u2026"), ...others.map((other) => el("option", { value: other.arm }, other.arm)));
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
    const data = expanded(await record(other));
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
