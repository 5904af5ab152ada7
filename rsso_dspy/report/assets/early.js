// Before anything is painted: that scripts run.
document.documentElement.classList.add("scripted");
