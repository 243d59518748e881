// Runs before anything is drawn. Light, dark, or as the system has it; and the answer before the rest.
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
  // Laying out the pictures takes longer than the answer may wait: they follow its first paint.
  const rest = () => root.classList.remove("beginning");
  if (!location.hash && globalThis.PerformancePaintTiming) {
    root.classList.add("beginning");
    new PerformanceObserver(rest).observe({ type: "paint", buffered: true });
    addEventListener("load", () => setTimeout(rest, 200)); // a page in the background is not painted
    addEventListener("beforeprint", rest);
  }
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
