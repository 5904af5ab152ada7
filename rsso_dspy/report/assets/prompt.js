// What the actor read at a step, region by region, in the order in which they stood in the prompt.

const WINDOW = 10;
const REGIONS = {
  constitution: "Constitution",
  plans_from_past_attempts: "Plans from past attempts",
  task: "Task",
  progress: "Progress",
  action_templates: "Action templates",
  skills: "Skills",
  history: "History",
};
/** The order of Algorithm 1; regions of a method's own are named by a star. */
const ORDER = ["constitution", "plans_from_past_attempts", "task", "progress", "action_templates", "skills", "*", "history"];
const CLOSED = new Set(["constitution", "action_templates", "history"]);

/** Whether its prompts show whole rooms, which a protocol's name tells. */
const isComplete = ({ about: { protocol } }) => {
  const words = protocol.split(" ");
  return words.includes("interface=complete") || (words[0].startsWith("adapt/") && !words.includes("interface=sso"));
};

/** The text of a region at a step; null where it was absent. See TrialResult.shown for the three forms of a name. */
function shownAt(data, trial, region, number) {
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
  return (found !== undefined && data.texts[found]) || null;
}

/** Region, its text and whether it reads otherwise than a step before. */
function regionsAt(data, trial, number) {
  const others = [...new Set(Object.keys(trial.shown).map((name) => name.split(/[:@]/)[0]))];
  const names = ORDER.flatMap((name) => (name === "*" ? others.filter((other) => !ORDER.includes(other)) : name));
  return names.map((name) => {
    const at = (step) => {
      if (name === "task") return data.texts[trial.task].trim();
      if (name === "action_templates") return shownAt(data, trial, name, step) ?? INDEX.templates;
      return name === "history" ? null : shownAt(data, trial, name, step);
    };
    const blocks = name === "history" ? historyAt(data, trial, number) : null;
    const text = blocks ? blocks.map((block) => block.text).join("\n\n") : at(number);
    return { name, text, blocks, changed: !blocks && number > 1 && text !== at(number - 1) };
  }).filter((region) => region.text);
}

function promptPart(data, trial, number, links) {
  const regions = regionsAt(data, trial, number);
  const total = regions.reduce((sum, region) => sum + region.text.length, 0);
  const share = el("div", { class: "share", "aria-hidden": "true" }, ...regions.map((region) => {
    const bar = el("span", { class: `r-${known(region.name)}` });
    bar.style.flexGrow = region.text.length;
    return bar;
  }));
  const legend = el("p", { class: "legend" }, ...regions.map((region) =>
    el("span", {}, el("i", { class: `swatch r-${known(region.name)}` }), REGIONS[region.name] ?? region.name)));
  return el("section", { class: "prompt", "aria-label": "Prompt" },
    el("h4", {}, "Prompt ", el("span", { class: "dim" }, `about ${count(Math.ceil(total / 100) * 100, "character")} in ${count(regions.length, "region")}`)),
    share, legend, ...regions.map((region) => regionPart(region, links)));
}

const known = (name) => (name in REGIONS ? name : "other");

function regionPart(region, links) {
  const { name, text, blocks, changed } = region;
  const title = [el("i", { class: "swatch" }), el("b", {}, REGIONS[name] ?? name), " ",
    changed ? el("span", { class: "badge" }, "changed here") : null,
    el("span", { class: "dim" }, blocks ? `${blocks.whole ? "" : "last "}${count(blocks.states, "state")}` : count(text.length, "character"))];
  const body = blocks
    ? el("div", {}, el("p", { class: "note" }, "As seen and done, newest last; what stood there already is not repeated."),
      ...blocks.map((block) => el("div", { class: block.kind }, lines(block.text))))
    : lines(text);
  return folding(`region ${name}`, !CLOSED.has(name), { class: `region r-${known(name)}` }, title,
    el("div", { class: "body" }, body, links(name)));
}

/** The last ten states with the answers between them. */
function historyAt(data, trial, number) {
  const states = [trial.start, ...trial.steps.slice(0, number - 1).map((step) => step.state)];
  const first = Math.max(0, states.length - WINDOW);
  const blocks = [];
  let before = new Set();
  let room = null;
  states.slice(first).forEach((state, place) => {
    const [observation, look, inventory] = state.map((index) => data.texts[index]);
    const [here] = look.split("\n");
    if (isComplete(data) && (here !== room || look.startsWith(observation))) before = new Set();
    room = here;
    const seen = `${look}\n${inventory}`.split("\n").map((line) => line.trim()).filter(Boolean);
    const fresh = seen.filter((line) => !before.has(line) && !observation.includes(line));
    before = new Set(seen);
    const also = fresh.length ? `\nAlso seen:\n${fresh.map((line) => `  ${line}`).join("\n")}` : "";
    blocks.push({ kind: "seen", text: observation + also });
    const step = trial.steps[first + place];
    if (step && step.number < number) blocks.push({ kind: "done", text: answered(data, step) });
  });
  blocks.states = states.length - first;
  blocks.whole = first === 0;
  return blocks;
}

function answered(data, step) {
  const action = step.action || "(no action could be read from the answer)";
  if (!data.sso) return `Thought: ${step.reasoning}\nAction: ${action}`;
  return `Reasoning: ${step.reasoning}\nCurrent subgoal: ${step.subgoal ?? "none"}\nNext action: ${action}`;
}

// What was sent to a model at a step, and what it answered.

/** Exchanges of a step, the actor's first. */
const exchangesAt = (trial, number) => (trial.exchanges ?? []).filter((each) => each.step === number);

const wholeText = (data, parts) => parts.map((index) => data.texts[index]).join("\n\n");

/** Seconds and tokens of an exchange, as far as they are known. */
function costOf(exchange) {
  const [sent, said] = exchange.tokens ?? [0, 0];
  return [exchange.seconds ? `${exchange.seconds} s` : null,
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
    ...found.map((each, place) => exchangePart(data, each, place)));
}

function exchangePart(data, exchange, place) {
  const sent = exchange.messages.reduce((sum, [, parts]) => sum + wholeText(data, parts).length, 0);
  const title = [el("b", {}, exchange.role), " ",
    el("span", { class: "dim" }, [exchange.model, count(sent, "character"), ...costOf(exchange),
      exchange.failed ? `${count(exchange.failed, "request")} failed before` : null].filter(Boolean).join(", "))];
  return folding(`exchange ${exchange.role} ${place}`, false, { class: "region r-other exchange" }, title,
    el("div", { class: "body" },
      el("p", { class: "dim" }, data.texts[exchange.parameters]),
      ...exchange.messages.flatMap(([role, parts]) => [el("p", { class: "note" }, role), lines(wholeText(data, parts), { class: "sent" })]),
      el("p", { class: "note" }, exchange.error ? "error" : "answer"),
      lines(wholeText(data, exchange.answer), { class: "answered" })));
}
