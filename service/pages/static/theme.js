// Light, dark, or as the system has it; set before anything is drawn.
(() => {
  const root = document.documentElement;
  const order = ["auto", "light", "dark"];
  const said = { auto: "Colours: as the system", light: "Colours: light", dark: "Colours: dark" };
  const signs = { auto: "◐", light: "☀", dark: "☾" };
  let chosen = "auto";
  try { chosen = localStorage.getItem("theme") || "auto"; } catch { /* storage is off */ }
  const apply = () => {
    if (chosen === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", chosen);
  };
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => {
      button.textContent = signs[chosen];
      button.title = said[chosen];
      button.setAttribute("aria-label", said[chosen]);
    };
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      chosen = order[(order.indexOf(chosen) + 1) % order.length];
      try { localStorage.setItem("theme", chosen); } catch { /* storage is off */ }
      apply();
      show();
    });
  });
})();
