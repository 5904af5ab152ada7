// Search in every text of every unit: what was shown, asked, answered, done and learned.

const MOST_FOUND = 200;
const AROUND = 60;
let finding = 0;

/** Go through all units that the list shows, and show where the words stand. */
async function findEverywhere() {
  const wanted = byId("filter-q").value.trim().toLowerCase();
  const mine = ++finding;
  if (!wanted) return;
  const hits = el("ol", { class: "hits" });
  const status = el("p", { class: "dim", role: "status" });
  blank("");
  byId("unit").replaceChildren(el("section", { class: "found", "aria-label": "Found in texts" },
    el("h2", {}, `\u201c${wanted}\u201d in all texts`), status, hits));
  fold();
  const units = UNITS.filter((unit) => ["arm", "task", "outcome", "has"].every((name) => matches(unit, name)));
  let [found, looked, unread] = [0, 0, 0];
  for (const unit of units) {
    looked += 1;
    try {
      const data = expanded(await inflated(unit.number));
      if (mine !== finding || document.body.dataset.view !== "trials") return;
      for (const hit of hitsIn(data, wanted)) {
        if (found < MOST_FOUND) hits.append(hitRow(unit, hit));
        found += 1;
      }
    } catch {
      unread += 1;
    }
    const more = found > MOST_FOUND ? `, of which the first ${MOST_FOUND} are shown` : "";
    const lost = unread ? `; ${count(unread, "unit")} could not be opened` : "";
    status.textContent = `${count(found, "place")} in ${looked} of ${count(units.length, "unit")}${more}${lost}`;
  }
}

function hitRow(unit, { trial, step, where, text, at, size }) {
  const start = Math.max(0, at - AROUND);
  return el("li", {}, el("a", { href: address(unit, trial, step) }, `${unit.arm} ${unit.key}, trial ${trial}${step ? `, step ${step}` : ""}`),
    el("span", { class: "dim" }, ` ${where}`),
    el("p", {}, `${start ? "\u2026" : ""}${text.slice(start, at)}`, el("mark", {}, text.slice(at, at + size)),
      `${text.slice(at + size, at + size + AROUND)}${at + size + AROUND < text.length ? "\u2026" : ""}`));
}

/** Where a text holds the words: once a text and place, at the first step that has it. */
function* hitsIn(data, wanted) {
  const place = data.texts.map((text) => text.toLowerCase().indexOf(wanted));
  const seen = new Set();
  for (const trial of data.trials) {
    if (trial.error !== null) {
      if (place[trial.error] >= 0) yield hit(data, place, trial.error, trial, null, "error", wanted);
      continue;
    }
    for (const [name, index] of Object.entries(trial.shown)) {
      const from = /@(\d+)$/.exec(name);
      if (place[index] >= 0 && !seen.has(index)) {
        seen.add(index);
        yield hit(data, place, index, trial, from ? Number(from[1]) : 1, REGIONS[name.split(/[:@]/)[0]] ?? name.split(/[:@]/)[0], wanted);
      }
    }
    if (place[trial.task] >= 0 && !seen.has(trial.task)) {
      seen.add(trial.task);
      yield hit(data, place, trial.task, trial, 1, "task", wanted);
    }
    for (const step of trial.steps) {
      for (const [where, text] of [["answer", step.reasoning], ["subgoal", step.subgoal], ["unreadable answer", step.unread], ["action", step.proposed]]) {
        const at = (text ?? "").toLowerCase().indexOf(wanted);
        if (at >= 0) yield { trial: trial.trial, step: step.number, where, text, at, size: wanted.length };
      }
      for (const [where, index] of [["observation", step.state[0]], ["surroundings", step.state[1]], ["inventory", step.state[2]]]) {
        if (place[index] >= 0 && !seen.has(index)) {
          seen.add(index);
          yield hit(data, place, index, trial, step.number, where, wanted);
        }
      }
    }
    for (const exchange of trial.exchanges ?? []) {
      // what the actor was sent stands in regions and states already; its answers stand in its steps
      const sent = exchange.messages.filter(([role]) => exchange.role !== "actor" || role === "system");
      const said = exchange.role === "actor" ? [] : exchange.answer;
      for (const index of [...sent.flatMap(([, parts]) => parts), ...said]) {
        if (place[index] >= 0 && !seen.has(index)) {
          seen.add(index);
          yield hit(data, place, index, trial, exchange.step || null, `request of the ${exchange.role}`, wanted);
        }
      }
    }
  }
  for (const item of data.learnt) {
    if (place[item.text] >= 0 && !seen.has(item.text)) {
      yield { trial: Math.max(1, item.trial), step: null, where: `${KINDS[item.kind]} learned`, text: data.texts[item.text], at: place[item.text], size: wanted.length };
    }
  }
}

const hit = (data, place, index, trial, step, where, wanted) =>
  ({ trial: trial.trial, step, where, text: data.texts[index], at: place[index], size: wanted.length });
