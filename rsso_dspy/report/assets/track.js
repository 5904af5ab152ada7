// The score over the steps of a trial: a line to click on.

const HIGH = 100;

function track(trial, choose) {
  const total = trial.steps.length;
  const low = Math.min(0, ...trial.steps.map((step) => step.score));
  const x = (step) => (total ? (step / total) * 1000 : 0);
  const y = (score) => HIGH - ((Math.max(low, Math.min(100, score)) - low) / (100 - low)) * HIGH;
  let line = `M0 ${y(trial.at_reset)}`;
  for (const step of trial.steps) line += `H${x(step.number)}V${y(step.score)}`;
  const dots = trial.steps.filter((step) => step.reward).map((step) =>
    svg("path", { d: `M${x(step.number)} ${y(step.score)}h.01`, class: step.reward > 0 ? "gain" : "loss" }));
  const missed = trial.steps.filter((step) => !step.understood).map((step) =>
    svg("path", { d: `M${x(step.number)} ${HIGH + 5}v5`, class: "missed" }));
  const marker = svg("path", { class: "marker" });
  const picture = svg("svg", { viewBox: `0 -4 1000 ${HIGH + 16}`, preserveAspectRatio: "none", role: "img",
    "aria-label": `Environment score over ${total} steps, from ${trial.at_reset} to ${trial.score}` },
  ...[0, 50, 100].map((score) => svg("path", { d: `M0 ${y(score)}H1000`, class: "grid" })),
  marker, svg("path", { d: line, class: "line" }), ...dots, ...missed);
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    const step = Math.round(((event.clientX - box.left) / box.width) * total);
    if (total) choose(Math.max(1, Math.min(total, step)));
  });
  const labels = [100, 0, ...(low < 0 ? [low] : [])].map((score) => {
    const label = el("span", {}, `${score}`);
    label.style.top = `${((y(score) + 4) / (HIGH + 16)) * 100}%`;
    return label;
  });
  const part = el("div", { class: "track" }, el("div", { class: "axis", "aria-hidden": "true" }, ...labels), picture);
  return { part, mark: (step) => marker.setAttribute("d", `M${x(step)} -4V${HIGH + 12}`) };
}
