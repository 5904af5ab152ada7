// Of a page that a server serves from disk: how far the run is, and its news when the reader wants them.

const EVERY = 2000;

function startLive() {
  const chip = byId("live");
  if (!chip || !INDEX.live) return;
  const follow = el("input", { type: "checkbox", id: "follow" });
  const words = el("span", {}, INDEX.live.status);
  const news = el("button", { type: "button", hidden: true, onclick: () => location.reload() }, "Show news");
  chip.append(words, " ", news, el("label", { title: "Show news as they come" }, follow, " follow"));
  try {
    follow.checked = sessionStorage.getItem("rsso-dspy-follow") === "yes";
  } catch {
    // Not kept: the choice holds until the next news.
  }
  follow.addEventListener("change", () => {
    try {
      sessionStorage.setItem("rsso-dspy-follow", follow.checked ? "yes" : "no");
    } catch {
      // As above.
    }
  });
  const look = async () => {
    try {
      const answer = await fetch(INDEX.live.state, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const { version, status } = await answer.json();
      words.textContent = status;
      news.hidden = version === INDEX.live.version;
      if (!news.hidden && follow.checked) {
        location.reload();
        return;
      }
    } catch {
      words.textContent = "the server has ended";
    }
    setTimeout(look, EVERY);
  };
  setTimeout(look, EVERY);
}
