// A solve under way: the best plan so far comes down, the proved bound goes up, until they meet.
(() => {
  const plan = document.getElementById("progress").dataset.plan;
  const picture = document.querySelector("#closing svg");
  const began = performance.now();
  const seen = [];
  const PAUSE = 400;
  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [1120, 220, 74, 12, 12, 26];
  let tag = "";
  let latest = null;

  const duration = (seconds) => {
    if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.round(seconds / 60) % 60} min`;
    const [value, unit] = seconds >= 1 ? [seconds, "s"] : seconds >= 1e-3 ? [seconds * 1e3, "ms"] : [seconds * 1e6, "µs"];
    return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
  };
  const say = (id, text) => {
    const place = document.getElementById(id);
    if (place.textContent !== text) place.textContent = text;
  };
  const element = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const draw = () => {
    const found = seen.filter((moment) => moment.bound !== null || moment.best !== null);
    if (found.length < 2) return;
    document.getElementById("closing").hidden = false;
    document.getElementById("closing-legend").hidden = false;
    const values = found.flatMap((moment) => [moment.best, moment.bound]).filter((value) => value !== null);
    const top = Math.max(...values) * 1.02;
    const low = Math.min(...values) * 0.98;
    const last = found.at(-1).at;
    const x = (at) => LEFT + (at / last) * (WIDTH - LEFT - RIGHT);
    const y = (value) => TOP + ((top - value) / (top - low || 1)) * (HEIGHT - TOP - BOTTOM);
    const steps = (key) => found.filter((moment) => moment[key] !== null)
      .reduce((path, moment, i) => path + (i ? `H${x(moment.at)}V${y(moment[key])}` : `M${x(moment.at)} ${y(moment[key])}`), "");
    const grid = [0, 0.5, 1].flatMap((share) => {
      const value = low + share * (top - low);
      return [element("path", { class: "grid", d: `M${LEFT} ${y(value)}H${WIDTH - RIGHT}` }),
        element("text", { class: "end small", x: LEFT - 8, y: y(value) + 4 }, duration(value))];
    });
    picture.replaceChildren(...grid,
      element("text", { class: "small muted", x: LEFT, y: HEIGHT - 6 }, "0 s"),
      element("text", { class: "end small muted", x: WIDTH - RIGHT, y: HEIGHT - 6 }, `${duration(last / 1000)} of watching`),
      element("path", { class: "bound", d: steps("bound") }), element("path", { class: "incumbent", d: steps("best") }));
  };

  const show = (document_) => {
    const progress = document_.progress || {};
    const best = progress.incumbent_seconds ?? null;
    const bound = Number.isFinite(progress.bound_seconds) ? progress.bound_seconds : null;
    seen.push({ at: performance.now() - began, best, bound });
    say("incumbent", best === null ? "—" : duration(best));
    say("bound", bound === null ? "—" : duration(bound));
    say("gap", best === null || bound === null ? "—" : `${Math.max(0, (1 - bound / best) * 100).toPrecision(2)}%`);
    say("elapsed", duration((performance.now() - began) / 1000));
    if (progress.layouts_total) {
      say("layouts", `${progress.layouts_done} of ${progress.layouts_total}`);
      const share = document.getElementById("share");
      share.max = progress.layouts_total;
      share.value = progress.layouts_done;
    }
    if (document_.status === "queued") say("said", "Waiting for a free worker.");
    else say("said", best === null ? "Looking for a first plan that fits." : "A plan is found; looking for a better one, and closing the proof.");
    draw();
  };

  const ask = async () => {
    try {
      const answer = await fetch(`/v1/plans/${plan}`, tag ? { headers: { "If-None-Match": tag } } : {});
      if (answer.status === 404) { location.reload(); return; }
      if (answer.ok) {
        tag = answer.headers.get("ETag") || "";
        const found = await answer.json();
        if (!["queued", "running"].includes(found.status)) { location.reload(); return; }
        latest = found;
      }
      if (latest) show(latest);
    } catch {
      say("said", "The service does not answer; trying again.");
    }
    say("elapsed", duration((performance.now() - began) / 1000));
    setTimeout(ask, PAUSE);
  };
  ask();
})();
