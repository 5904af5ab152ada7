// What was really sent to a model at a step, and what it really answered, where the run was recorded.

/** Exchanges of a step, the actor's first. */
const exchangesAt = (trial, number) => (trial.exchanges ?? []).filter((each) => each.step === number);

function exchangesPart(data, trial, number) {
  const found = exchangesAt(trial, number);
  if (!found.length) return null;
  return el("section", { class: "exchanges", "aria-label": "As sent and answered" },
    el("h4", {}, "As sent and answered ", el("span", { class: "dim" }, count(found.length, "exchange"))),
    ...found.map((each, place) => exchangePart(data, each, place)));
}

function exchangePart(data, exchange, place) {
  const whole = (parts) => parts.map((index) => data.texts[index]).join("\n\n");
  const sent = exchange.messages.reduce((sum, [, parts]) => sum + whole(parts).length, 0);
  const title = [el("b", {}, exchange.role), " ",
    el("span", { class: "dim" }, [exchange.model, count(sent, "character"), `${exchange.seconds} s`,
      exchange.failed ? `${count(exchange.failed, "request")} failed before` : null].filter(Boolean).join(", "))];
  return folding(`exchange ${exchange.role} ${place}`, false, { class: "region r-other exchange" }, title,
    el("div", { class: "body" },
      el("p", { class: "dim" }, data.texts[exchange.parameters]),
      ...exchange.messages.flatMap(([role, parts]) => [el("p", { class: "note" }, role), lines(whole(parts), { class: "sent" })]),
      el("p", { class: "note" }, exchange.error ? "error" : "answer"), lines(whole(exchange.answer), { class: "answered" })));
}
