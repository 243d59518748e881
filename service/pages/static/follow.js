// Work under way: its page is read again until nothing is pending; what is chosen stays chosen.
(() => {
  const PAUSE = 1000;
  const markOf = (element) => {
    if (element?.id) return `#${CSS.escape(element.id)}`;
    return element?.value ? `input[value="${CSS.escape(element.value)}"]` : null;
  };
  const again = async () => {
    try {
      const answer = await fetch(location.href);
      if (answer.ok) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-pending]");
        const shown = document.querySelector("[data-pending]");
        const chosen = new Set([...shown.querySelectorAll("input:checked")].map((box) => box.value));
        const focus = markOf(shown.contains(document.activeElement) ? document.activeElement : null);
        fresh.querySelectorAll("input").forEach((box) => { box.checked = chosen.has(box.value); });
        shown.replaceWith(fresh);
        if (focus) fresh.querySelector(focus)?.focus({ preventScroll: true });
        if (fresh.dataset.pending === "no") return;
      }
    } catch { /* the service is away for a moment */ }
    setTimeout(again, PAUSE);
  };
  setTimeout(again, PAUSE);
})();
