// A solve under way: the best plan so far comes down, the proved bound goes up, until they meet.
// Told by server-sent events; where those do not get through, by asking again and again.
(() => {
  const plan = document.getElementById("progress").dataset.plan;
  const box = document.getElementById("closing");
  const picture = box.querySelector("svg");
  const began = performance.now();
  const seen = [];
  const PAUSE = 400;
  const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [230, 74, 14, 16, 26];
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
    if (!found.length) return;
    box.hidden = false;
    document.getElementById("closing-legend").hidden = false;
    const width = Math.max(340, box.clientWidth);
    picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const now = { ...found.at(-1), at: performance.now() - began };
    const steps = [...found, now];
    const values = steps.flatMap((moment) => [moment.best, moment.bound]).filter((value) => value !== null);
    const top = Math.max(...values) * 1.02;
    const low = Math.min(...values) * 0.98;
    const x = (at) => LEFT + (at / now.at) * (width - LEFT - RIGHT);
    const y = (value) => TOP + ((top - value) / (top - low || 1)) * (HEIGHT - TOP - BOTTOM);
    const path = (key) => steps.filter((moment) => moment[key] !== null)
      .reduce((line, moment, i) => line + (i ? `H${x(moment.at)}V${y(moment[key])}` : `M${x(moment.at)} ${y(moment[key])}`), "");
    const both = steps.filter((moment) => moment.best !== null && moment.bound !== null);
    const between = both.length < 2 ? "" : both.reduce((line, moment, i) => line + (i ? `H${x(moment.at)}V${y(moment.best)}` : `M${x(moment.at)} ${y(moment.best)}`), "")
      + `V${y(both.at(-1).bound)}` + [...both].reverse().reduce((line, moment, i, all) => line + (i ? `V${y(moment.bound)}H${x(moment.at)}` : ""), "") + "z";
    const grid = [0, 0.5, 1].flatMap((share) => {
      const value = low + share * (top - low);
      return [element("path", { class: "grid", d: `M${LEFT} ${y(value)}H${width - RIGHT}` }),
        element("text", { class: "end small", x: LEFT - 8, y: y(value) + 4 }, duration(value))];
    });
    picture.replaceChildren(...grid,
      element("text", { class: "small muted", x: LEFT, y: HEIGHT - 6 }, "0 s"),
      element("text", { class: "end small muted", x: width - RIGHT, y: HEIGHT - 6 }, `${duration(now.at / 1000)} of watching`),
      element("path", { class: "between", d: between }),
      element("path", { class: "bound", d: path("bound") }), element("path", { class: "incumbent", d: path("best") }));
  };

  const show = (told) => {
    const progress = told.progress || {};
    const best = progress.incumbent_seconds ?? null;
    const bound = Number.isFinite(progress.bound_seconds) ? progress.bound_seconds : null;
    const last = seen.at(-1);
    if (!last || last.best !== best || last.bound !== bound) seen.push({ at: performance.now() - began, best, bound });
    say("incumbent", best === null ? "—" : duration(best));
    say("bound", bound === null ? "—" : duration(bound));
    say("gap", best === null || bound === null ? "—" : `${Math.max(0, (1 - bound / best) * 100).toPrecision(2)}%`);
    if (progress.layouts_total) {
      say("layouts", `${progress.layouts_done} of ${progress.layouts_total}`);
      const share = document.getElementById("share");
      share.max = progress.layouts_total;
      share.value = progress.layouts_done;
    }
    if (told.status === "queued") say("said", "Waiting for a free worker.");
    else say("said", best === null ? "Looking for a first plan that fits." : "A plan is found; looking for a better one, and closing the proof.");
    latest = told;
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
        show(found);
      }
    } catch {
      say("said", "The service does not answer; trying again.");
    }
    setTimeout(ask, PAUSE);
  };

  const follow = () => {
    const events = new EventSource(`/v1/plans/${plan}/events`);
    events.addEventListener("progress", (event) => show(JSON.parse(event.data)));
    events.addEventListener("finished", () => { events.close(); location.reload(); });
    events.addEventListener("error", () => {
      if (events.readyState !== EventSource.CLOSED) {
        say("said", "The connection is lost; trying again.");
        return;
      }
      ask();
    });
  };

  setInterval(() => {
    say("elapsed", duration((performance.now() - began) / 1000));
    if (latest) draw();
  }, PAUSE);
  follow();
})();
