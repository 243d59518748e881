// A form and, beside it, its request as JSON: what is written on one side appears on the other, and
// both are checked meanwhile. The form says where it is checked; a plan's job may stand within another
// question, as "job".
(() => {
  const form = document.getElementById("make");
  const verdict = document.getElementById("verdict");
  const summary = document.getElementById("problems");
  const json = document.getElementById("json");
  const PAUSE = 350;
  const SHOWN_AS = {
    "cluster.memory_bytes": "cluster.memory_gib",
    storage_bytes_per_second: "storage_gigabytes_per_second",
  };
  const OFFLOADS_WITH = {
    "recompute.policy": ["", "optimal"],
    "recompute.overlap": ["", "off"],
    "target.framework": [""],
  };
  let side = "form";
  let waiting = 0;
  let latest = 0;

  const arrange = () => {
    const chosen = new FormData(form).get("model_form");
    form.querySelectorAll("[data-for]").forEach((part) => { part.hidden = part.dataset.for !== chosen; });
    form.querySelectorAll("[data-not-for]").forEach((part) => { part.hidden = part.dataset.notFor === chosen; });
    form.querySelector('label[for="training.global_batch_size"] small').textContent =
      chosen === "profile" ? "micro-batches per pipeline" : "sequences";
    form.elements.namedItem("recompute.offload").disabled = Object.entries(OFFLOADS_WITH)
      .some(([name, values]) => !values.includes(form.elements.namedItem(name).value));
  };

  const inputOf = (field) => {
    for (let path = (field || "").replace(/^job\./, ""); path; path = path.replace(/(\.|\[)[^.[]*$/, "")) {
      const input = form.elements.namedItem(SHOWN_AS[path] || path);
      if (input && !input.closest("[hidden]")) return input;
      if (!/[.[]/.test(path)) break;
    }
    return null;
  };

  const clear = () => {
    form.querySelectorAll(".problem").forEach((place) => { place.textContent = ""; });
    form.querySelectorAll("[aria-invalid]").forEach((input) => input.removeAttribute("aria-invalid"));
    summary.hidden = true;
    summary.querySelector("ul").replaceChildren();
  };

  const tell = (problems) => {
    clear();
    const elsewhere = [];
    problems.forEach((problem) => {
      const text = [problem.detail, problem.hint].filter(Boolean).join(" ");
      const input = inputOf(problem.field);
      if (!input) { elsewhere.push(problem); return; }
      input.setAttribute("aria-invalid", "true");
      document.getElementById(`${input.id}-problem`).textContent = text;
      const folded = input.closest("details:not([open])");
      if (folded) folded.open = true;
    });
    summary.hidden = !elsewhere.length;
    summary.querySelector("ul").append(...elsewhere.map((problem) => {
      const item = document.createElement("li");
      const name = document.createElement("strong");
      name.textContent = problem.field ? `${problem.field} ` : "";
      item.append(name, [problem.detail, problem.hint].filter(Boolean).join(" "));
      return item;
    }));
    verdict.className = problems.length ? "bad" : "good";
    verdict.textContent = problems.length === 0 ? form.dataset.good
      : problems.length === 1 ? "One thing is in the way." : `${problems.length} things are in the way.`;
  };

  const fill = (fields) => {
    [...form.elements].forEach((input) => {
      if (!input.name || input === json || input.type === "submit") return;
      if (input.type === "radio") input.checked = input.value === (fields[input.name] || "name");
      else if (input.name in fields || !input.name.startsWith("model.")) input.value = fields[input.name] || "";
    });
    arrange();
  };

  const check = async () => {
    const mine = ++latest;
    const written = side;
    const body = new URLSearchParams(new FormData(form));
    if (written === "json") body.set("from", "json");
    try {
      const answer = await fetch(form.dataset.check, { method: "POST", body });
      if (mine !== latest || !answer.ok) return;
      const said = await answer.json();
      if (mine !== latest) return;
      if (written === "json" && said.fields) fill(said.fields);
      if (written === "form" && said.json) json.value = said.json;
      tell(said.problems);
    } catch {
      verdict.className = "bad";
      verdict.textContent = "The service cannot be reached.";
    }
  };

  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(check, PAUSE);
  };
  form.addEventListener("input", (event) => {
    side = event.target === json ? "json" : "form";
    arrange();
    soon();
  });
  form.addEventListener("submit", () => {
    if (side === "json") {
      const from = document.createElement("input");
      Object.assign(from, { type: "hidden", name: "from", value: "json" });
      form.append(from);
    }
    verdict.className = "";
    verdict.textContent = "Asking…";
    form.querySelector("button[type=submit]").setAttribute("aria-busy", "true");
  });
  window.addEventListener("pageshow", () => {
    form.querySelector("button[type=submit]").removeAttribute("aria-busy");
    form.querySelector("input[name=from]")?.remove();
    arrange();
  });

  form.querySelectorAll("[data-noscript]").forEach((button) => { button.hidden = true; });
  arrange();
  if (summary.hidden) check();
  else {
    const given = [...summary.querySelectorAll("li")].map((item) => ({
      field: item.dataset.field,
      detail: item.textContent.replace(item.dataset.field, "").trim(),
    }));
    tell(given);
  }
})();
