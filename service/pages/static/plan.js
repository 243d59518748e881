// The plan page: moves through the timeline, follows a stage's memory.
(() => {
  const plan = document.querySelector("[data-plan]").dataset.plan;
  const section = document.getElementById("timeline");
  let asked = 0;

  const replace = async (id, address) => {
    const place = document.getElementById(id);
    const mine = ++asked;
    place.classList.add("busy");
    const answer = await fetch(address);
    if (!answer.ok || mine !== asked) { place.classList.remove("busy"); return false; }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(id);
    const focus = place.contains(document.activeElement) ? markOf(document.activeElement) : null;
    place.replaceWith(fresh);
    if (focus) fresh.querySelector(focus)?.focus({ preventScroll: true });
    return true;
  };

  const markOf = (element) => {
    if (element.dataset.key) return `[data-key="${CSS.escape(element.dataset.key)}"]`;
    if (element.id) return `#${CSS.escape(element.id)}`;
    return element.matches("[data-timeline]") ? "[data-timeline]" : null;
  };

  const state = () => {
    const { from, to, total, critical } = document.getElementById("timeline-part").dataset;
    return { from: Number(from), to: Number(to), total: Number(total), critical };
  };

  const show = async (from, to, critical = state().critical) => {
    const { total } = state();
    const length = Math.min(to - from, total);
    const start = Math.min(Math.max(from, 0), total - length);
    const query = `from=${start}&to=${start + length}&critical=${critical}`;
    if (await replace("timeline-part", `/plans/${plan}/parts/timeline?${query}`)) {
      history.replaceState(null, "", `/plans/${plan}?${query}#timeline`);
      section.querySelectorAll("[data-windowed]").forEach((link) => {
        link.href = `/plans/${plan}/pictures/timeline.${link.dataset.windowed}?${query}`;
      });
    }
  };

  const PLOT = { left: 68 / 1120, right: 1108 / 1120 };
  const momentAt = (box, x, from, to) => {
    const edge = box.querySelector("svg").getBoundingClientRect();
    const share = ((x - edge.left) / edge.width - PLOT.left) / (PLOT.right - PLOT.left);
    return from + Math.min(Math.max(share, 0), 1) * (to - from);
  };

  // What is known of the pass that is pointed at. A path draws all passes of a kind, box by box.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("aria-hidden", "true");
  tip.hidden = true;
  document.body.append(tip);
  const boxesOf = (path) => path.boxes ??= [...path.getAttribute("d").matchAll(/M([-\d.]+) ([-\d.]+)h([-\d.]+)v([-\d.]+)/g)]
    .map((found) => found.slice(1).map(Number));
  const forget = () => {
    document.querySelector(".picture .pointed")?.remove();
    tip.hidden = true;
  };
  const pointed = (event) => {
    const path = event.target.closest?.("[data-tips]");
    forget();
    if (!path) return;
    const svg = path.ownerSVGElement;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const index = boxesOf(path).findIndex(([x, y, width, height]) =>
      at.x >= x - .3 && at.x <= x + width + .3 && at.y >= y && at.y <= y + height);
    tip.hidden = index < 0;
    if (index < 0) return;
    const [x, y, width, height] = boxesOf(path)[index];
    const mark = document.createElementNS(svg.namespaceURI, "rect");
    mark.setAttribute("class", "pointed");
    Object.entries({ x, y, width, height }).forEach(([name, value]) => mark.setAttribute(name, value));
    path.parentNode.append(mark);
    tip.textContent = path.dataset.tips.split("|")[index];
    const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(left, 8)}px`;
    tip.style.top = `${event.clientY + 20 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 12 : event.clientY + 20}px`;
  };

  if (section) {
    section.addEventListener("pointermove", pointed);
    section.addEventListener("click", pointed);
    section.addEventListener("pointerleave", forget);
    document.addEventListener("pointerdown", (event) => { if (!section.contains(event.target)) forget(); });
    document.addEventListener("scroll", forget, { capture: true, passive: true });
    section.addEventListener("click", (event) => {
      const link = event.target.closest("[data-jump]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      const query = new URLSearchParams(link.dataset.jump);
      show(Number(query.get("from")), Number(query.get("to")));
    });
    section.addEventListener("change", (event) => {
      if (event.target.id !== "critical") return;
      const { from, to } = state();
      show(from, to, String(event.target.checked));
    });
    section.addEventListener("keydown", (event) => {
      if (!event.target.closest("[data-timeline]") || event.ctrlKey || event.metaKey || event.altKey) return;
      const key = event.key === "=" ? "+" : event.key;
      const link = section.querySelector(`[data-key="${CSS.escape(key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
    });
    section.addEventListener("wheel", (event) => {
      const box = event.target.closest("[data-timeline]");
      if (!box || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      const { from, to } = state();
      const centre = momentAt(box, event.clientX, from, to);
      const factor = event.deltaY < 0 ? 0.6 : 1 / 0.6;
      show(centre - (centre - from) * factor, centre + (to - centre) * factor);
    }, { passive: false });
    section.addEventListener("pointerdown", (event) => {
      const box = event.target.closest("[data-overview]");
      if (!box || event.button) return;
      const { from, to, total } = state();
      const first = momentAt(box, event.clientX, 0, total);
      const up = (release) => {
        const second = momentAt(box, release.clientX, 0, total);
        const length = Math.abs(second - first);
        if (length > total / 200) show(Math.min(first, second), Math.max(first, second));
        else show(first - (to - from) / 2, first + (to - from) / 2);
      };
      window.addEventListener("pointerup", up, { once: true });
    });
  }

  document.querySelectorAll("[data-noscript]").forEach((button) => { button.hidden = true; });
  document.getElementById("memory")?.addEventListener("change", async (event) => {
    if (event.target.id !== "stage") return;
    await replace("memory-part", `/plans/${plan}/parts/memory?stage=${event.target.value}`);
    document.querySelectorAll("#memory-part [data-noscript]").forEach((button) => { button.hidden = true; });
  });
})();
