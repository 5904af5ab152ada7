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

/** What stands ahead of the regions: the system message, and demonstrations as messages. Nothing where no request is known. */
function aheadParts(data, trial, number) {
  const actors = exchangesAt(trial, number).filter((each) => each.role === "actor");
  if (!actors.length) return [];
  const { messages } = actors[0];
  const systems = messages.filter(([role]) => role === "system");
  const demos = messages.filter(([role]) => role !== "system").slice(0, -1);
  const part = (name, title, found, words) => (found.length ? folding(`region ${name}`, false,
    { class: `region r-other ${name}` },
    [el("i", { class: "swatch" }), el("b", {}, title), " ", el("span", { class: "dim" }, words)],
    el("div", { class: "body" }, ...found.flatMap(([role, parts]) => [
      name === "demonstrations" ? el("p", { class: "note" }, role) : null, lines(wholeText(data, parts))].filter(Boolean)))) : null);
  const size = systems.reduce((sum, [, parts]) => sum + wholeText(data, parts).length, 0);
  return [part("system", "System message", systems, count(size, "character")),
    part("demonstrations", "Demonstrations", demos, count(demos.length / 2, "demonstration"))].filter(Boolean);
}
