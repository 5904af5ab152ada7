// What the actor read at a step: the regions that memories and the task filled, then the requests as they were sent.

const REGIONS = {
  constitution: "Constitution",
  plans_from_past_attempts: "Plans from past attempts",
  task: "Task",
  progress: "Progress",
  action_templates: "Action templates",
  skills: "Skills",
  seen: "Seen last",
};
/** The order in which they are shown; regions of a method's own are named by a star. */
const ORDER = ["constitution", "plans_from_past_attempts", "task", "progress", "action_templates", "skills", "*", "seen"];
const CLOSED = new Set(["constitution", "action_templates"]);

/** The text of a region at a step; null where it was absent. See TrialResult.shown for the three forms of a name. */
function shownAt(trial, region, number) {
  const { shown } = trial;
  const names = trial.steps[number - 1].recalled;
  let found = shown[region] ?? (names.length ? shown[`${region}:${names.join(",")}`] : undefined);
  if (found === undefined) {
    let latest = 0;
    for (const name of Object.keys(shown)) {
      const [, of, from] = /^(.*)@(\d+)$/s.exec(name) ?? [];
      if (of === region && Number(from) <= number && Number(from) >= latest) {
        latest = Number(from);
        found = shown[name];
      }
    }
  }
  return found || null;
}

/** Region, its text and whether it reads otherwise than a step before. */
function regionsAt(trial, number) {
  const others = [...new Set(Object.keys(trial.shown).map((name) => name.split(/[:@]/)[0]))];
  const names = ORDER.flatMap((name) => (name === "*" ? others.filter((other) => !ORDER.includes(other)) : name));
  return names.map((name) => {
    const at = (step) => {
      if (name === "task") return trial.task.trim();
      if (name === "seen") return (trial.steps[step - 2]?.state ?? trial.start).observation;
      return shownAt(trial, name, step) ?? (name === "action_templates" ? INDEX.templates : null);
    };
    return { name, text: at(number), changed: name !== "seen" && number > 1 && at(number) !== at(number - 1) };
  }).filter((region) => region.text);
}

function promptPart(trial, number, links) {
  const regions = regionsAt(trial, number);
  const share = el("div", { class: "share", "aria-hidden": "true" }, ...regions.map((region) => {
    const bar = el("span", { class: `r-${known(region.name)}` });
    bar.style.flexGrow = region.text.length;
    return bar;
  }));
  return el("section", { class: "prompt", "aria-label": "Prompt" },
    el("h4", {}, "Prompt ", el("span", { class: "dim" }, count(regions.length, "region"))),
    share, ...regions.map((region) => regionPart(region, links)));
}

const known = (name) => (name in REGIONS ? name : "other");

function regionPart({ name, text, changed }, links) {
  const title = [el("i", { class: "swatch" }), el("b", {}, REGIONS[name] ?? name), " ",
    changed ? el("span", { class: "badge" }, "changed here") : null,
    el("span", { class: "dim" }, count(text.length, "character"))];
  return folding(`region ${name}`, !CLOSED.has(name), { class: `region r-${known(name)}` }, title,
    el("div", { class: "body" }, lines(text), links(name)));
}

// What was sent to a model at a step, and what it answered.

/** Exchanges of a step, the actor's first. */
const exchangesAt = (trial, number) => trial.exchanges.filter((each) => each.step === number);

/** Seconds and tokens of an exchange, as far as they are known. */
function costOf({ seconds, tokens: [sent, said] }) {
  return [seconds ? `${seconds} s` : null,
    sent || said ? `${sent.toLocaleString("en")} tokens in, ${said.toLocaleString("en")} out` : null].filter(Boolean);
}

function exchangesPart(data, trial, number) {
  const found = exchangesAt(trial, number);
  if (!found.length) {
    return el("p", { class: "note" }, `The request is not in the page${data.why_not ? `: ${data.why_not}` : ""}.`);
  }
  const title = "As sent and answered ";
  return el("section", { class: "exchanges", "aria-label": title.trim() },
    el("h4", {}, title, el("span", { class: "dim" }, count(found.length, "exchange"))),
    ...found.map((each, place) => exchangePart(each, place)));
}

function exchangePart(exchange, place) {
  const sent = exchange.messages.reduce((sum, [, text]) => sum + text.length, 0);
  const title = [el("b", {}, exchange.role), " ",
    el("span", { class: "dim" }, [exchange.model, count(sent, "character"), ...costOf(exchange),
      exchange.failed ? `${count(exchange.failed, "request")} failed before` : null].filter(Boolean).join(", "))];
  return folding(`exchange ${exchange.role} ${place}`, false, { class: "region r-other exchange" }, title,
    el("div", { class: "body" },
      el("p", { class: "dim" }, exchange.parameters),
      ...exchange.messages.flatMap(([role, text]) => [el("p", { class: "note" }, role), lines(text, { class: "sent" })]),
      el("p", { class: "note" }, exchange.error ? "error" : "answer"),
      lines(exchange.answer, { class: "answered" })));
}
