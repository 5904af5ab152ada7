// What was sent to a model at a step: the request that the log of the run holds, whole, message by message, each in the
// parts that have headings.

/** Parts that are closed at first, as they say the same at every step. */
const CLOSED = new Set(["instruction", "form_of_the_answer", "examples", "about", "action_templates",
  "solved_examples"]);
const LONG = 3000;

/** Parts that are others at every step. */
const MOVING = new Set(["", "history", "observation", "possible_actions"]);

/** Those that have a colour of their own; the rest share one. */
const COLOURED = new Set(["constitution", "plans_from_past_attempts", "task", "progress", "action_templates", "skills",
  "observation", "history"]);

const colour = (name) => `r-${COLOURED.has(name) ? name : "other"}`;

/** The name of a field in words, as a prompt labels it. */
const labelOf = (name) => name.slice(0, 1).toUpperCase() + name.slice(1).replaceAll("_", " ");

/** Exchanges of a step, the actor's first. */
const exchangesAt = (trial, number) => trial.exchanges.filter((each) => each.step === number);

/** The exchange that gave the action of a step: where the actor was asked several times, the last. */
const actingAt = (trial, number) => exchangesAt(trial, number).filter((each) => each.role === "actor").at(-1);

/** The messages of an exchange, each with its role and its parts. */
const messagesOf = (data, exchange) => exchange.messages.map((number) => {
  const [role, parts] = data.messages[number];
  return { role, parts: parts.map(([name, text]) => ({ name, text })) };
});

const lengthOf = (messages) => messages.reduce((sum, { parts }) =>
  sum + parts.reduce((length, part) => length + part.text.length, 0), 0);

/** Seconds and tokens of an exchange, as far as they are known. */
function costOf({ seconds, tokens: [sent, said] }) {
  const took = seconds ? `${seconds} s` : null;
  const counted = sent || said ? `${sent.toLocaleString("en")} tokens in, ${said.toLocaleString("en")} out` : null;
  return [took, counted].filter(Boolean);
}

/** Who answered an exchange, at what cost, and after how many failures. */
function factsOf(exchange) {
  const failed = exchange.failed ? `${count(exchange.failed, "request")} failed before` : null;
  return [exchange.model, ...costOf(exchange), failed].filter(Boolean);
}

function promptPart(data, trial, number, links) {
  const exchange = actingAt(trial, number);
  if (!exchange) {
    const why = data.why_not ? `: ${data.why_not}` : "";
    return el("section", { class: "prompt", "aria-label": "Prompt" }, el("h4", {}, "Prompt"),
      el("p", { class: "note" }, `The request of this step is not in the page${why}.`));
  }
  const messages = messagesOf(data, exchange);
  const size = `${count(messages.length, "message")}, ${count(lengthOf(messages), "character")}, as sent`;
  const before = findBefore(data, trial, number);
  return el("section", { class: "prompt", "aria-label": "Prompt" },
    el("h4", {}, "Prompt ", el("span", { class: "dim" }, size)),
    sharesBar(messages),
    goneNote(messages, before),
    ...messageParts(messages, before, links),
    el("p", { class: "note parameters" }, `Sent with ${exchange.parameters}`));
}

/** The request that this one is compared with: of the step before, or of the first step of the trial before. */
function findBefore(data, trial, number) {
  const earlier = data.trials[data.trials.indexOf(trial) - 1];
  const exchange = number > 1 ? actingAt(trial, number - 1) : earlier && actingAt(earlier, 1);
  if (!exchange) return null;
  const parts = messagesOf(data, exchange).flatMap((message) => message.parts);
  return {
    where: number > 1 ? `step ${number - 1}` : `trial ${earlier.trial}`,
    texts: new Map(parts.map(({ name, text }) => [name, text.trim()])), // of a name that stands there twice the last
  };
}

/** How much of the request each part takes. */
function sharesBar(messages) {
  const bars = messages.flatMap(({ parts }) => parts).map(({ name, text }) => {
    const bar = el("span", { class: colour(name) });
    bar.style.flexGrow = text.length;
    return bar;
  });
  return el("div", { class: "share", "aria-hidden": "true" }, ...bars);
}

/** What stood in the request before and does so no longer. */
function goneNote(messages, before) {
  if (!before) return null;
  const here = new Set(messages.flatMap(({ parts }) => parts).map(({ name }) => name));
  const gone = [...before.texts.keys()].filter((name) => !here.has(name) && !MOVING.has(name));
  if (!gone.length) return null;
  return el("p", { class: "note" }, `No longer there since ${before.where}: ${gone.map(labelOf).join(", ")}`);
}

/** The messages in the order in which they were sent. Those between the first and the last of a conversation are
 * folded up. */
function messageParts(messages, before, links) {
  const shown = messages.map((message, place) => {
    const isMarked = place < 2 || place === messages.length - 1;
    return messagePart(message, isMarked ? before : null, links);
  });
  const turns = shown.slice(2, -1);
  if (turns.length < 2) return shown;
  const title = `${count(turns.length, "message")} of the steps before`;
  return [...shown.slice(0, 2), folding("turns", false, { class: "turns" }, title, ...turns), ...shown.slice(-1)];
}

function messagePart({ role, parts }, before, links) {
  const shown = parts.map((part) => regionPart(part, role, markOf(part, before), links));
  return el("div", { class: "message", "data-role": role }, el("p", { class: "note" }, role), ...shown);
}

/** What is said of a part that was another one before. */
function markOf({ name, text }, before) {
  if (!before || MOVING.has(name)) return null;
  if (!before.texts.has(name)) return `new since ${before.where}`;
  return before.texts.get(name) === text.trim() ? null : `changed since ${before.where}`;
}

function regionPart({ name, text }, role, mark, links) {
  const title = [el("i", { class: "swatch" }), el("b", {}, name ? labelOf(name) : role), " ",
    mark ? el("span", { class: "badge" }, mark) : null,
    el("span", { class: "dim" }, count(text.length, "character"))];
  const isOpen = !CLOSED.has(name) && text.length <= LONG;
  return folding(`region ${name || role}`, isOpen, { class: `region ${colour(name)}` }, title,
    el("div", { class: "body" }, lines(text, { class: "sent" }), links(name)));
}

// What else was sent at a step: to other roles, and to the actor where it was asked again.

function exchangesPart(data, trial, number) {
  const acting = actingAt(trial, number);
  const others = exchangesAt(trial, number).filter((each) => each !== acting);
  if (!others.length) return null;
  const title = "Other requests at this step";
  return el("section", { class: "exchanges", "aria-label": title },
    el("h4", {}, `${title} `, el("span", { class: "dim" }, count(others.length, "request"))),
    ...others.map((each, place) => exchangePart(data, each, place)));
}

function exchangePart(data, exchange, place) {
  const messages = messagesOf(data, exchange);
  const facts = [count(lengthOf(messages), "character"), ...factsOf(exchange)].join(", ");
  const title = [el("b", {}, exchange.role), " ", el("span", { class: "dim" }, facts)];
  const sent = messages.flatMap(({ role, parts }) =>
    [el("p", { class: "note" }, role), lines(parts.map((part) => part.text).join(""), { class: "sent" })]);
  return folding(`exchange ${exchange.role} ${place}`, false, { class: "region r-other exchange" }, title,
    el("div", { class: "body" },
      el("p", { class: "dim" }, exchange.parameters),
      ...sent,
      el("p", { class: "note" }, exchange.error ? "error" : "answer"),
      lines(exchange.answer, { class: "answered" })));
}
