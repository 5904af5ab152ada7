// Before anything is painted: that scripts run, and which colours were chosen.
document.documentElement.classList.add("scripted");
try {
  const theme = localStorage.getItem("rsso-dspy-theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing for files follows the system.
}
