  // Light or dark: as the system has it, until somebody presses the button.
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const themeButton = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

  function showTheme() {
    themeButton.textContent = isDark() ? "Light" : "Dark";
    themeButton.setAttribute("aria-label", `Use the ${isDark() ? "light" : "dark"} theme`);
  }

  // A figure is made for a light page: each of its colours has one that takes its place.
  const colour = new RegExp(`"(${Object.keys(page.dark).map((one) => one.replace(/[().]/g, "\\$&")).join("|")})"`, "g");
  function themed(part) {
    const text = JSON.stringify(part);
    return JSON.parse(isDark() ? text.replace(colour, (_, light) => `"${page.dark[light]}"`) : text);
  }

  themeButton.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
    redraw();
  });
  system.addEventListener("change", () => { showTheme(); redraw(); });
  showTheme();
