"use strict";
// Draws the timeline with plotly and answers mouse and keyboard. A track is one filled path:
// its events where they are few, else the share of time that they fill, as height.
const syncscopeTimeline = (() => {
  const { isExact, hasAny, slotsBetween, markAt, arrowsBetween, occurrences, neighbour } = syncscopeTimelineData;
  const element = document.getElementById("syncscope-timeline");
  const tip = document.getElementById("timeline-tip");
  const ROW = 34;
  const COUNTER_ROW = 64;
  const COUNTER_NAME = 22;
  const HALF = 0.34;
  const MOST_MARKS = 2500;
  const MOST_SLOTS = 700;
  const MOST_ARROWS = 14;
  const LEAST_SEEN = 0.005;
  let data;
  let unit;
  let margin;
  let anchors;
  let range;
  let selected = null;
  let pointed = null;
  let counterRows;
  let shown;  // the lanes that have something in view, from top to bottom
  let rows;  // number of a lane -> its row, where it is shown
  let notify = () => {};

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  // Plotly reads some HTML in labels: names must not be taken for it.
  function plain(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function stepLength() {
    const lengths = data.steps.map((step) => step.end - step.start).sort((a, b) => a - b);
    return lengths.length > 1 ? lengths[lengths.length >> 1] : data.end / 10;
  }

  function padded(start, end) {
    const room = Math.max((end - start) * 0.01, 500);
    return [start - room, end + room];
  }

  function everything() {
    return padded(0, data.end);
  }

  // Many steps at once show nothing: begin with three in the middle.
  function firstRange() {
    if (data.steps.length < 6) return everything();
    const middle = data.steps.length >> 1;
    return padded(data.steps[middle - 1].start, data.steps[middle + 1].end);
  }

  // Corners of rectangles as plotly takes them: one path for each, broken by nulls.
  function rectangles() {
    const x = [];
    const y = [];
    return {
      x, y,
      add(start, end, top, bottom) {
        x.push(start / unit.ns, end / unit.ns, end / unit.ns, start / unit.ns, start / unit.ns, null);
        y.push(top, top, bottom, bottom, top, null);
      },
    };
  }

  function exactMarks(track, group, pixel, wanted) {
    const shapes = rectangles();
    // Events of the host are what one looks for: they are never thinner than can be seen.
    const least = group === "host" || group === "engine" || wanted ? 1.5 * pixel : 0;
    const [first, last] = track.between(range[0] - least, range[1]);
    for (let i = first; i < last; i++) {
      if (wanted && !wanted(i)) continue;
      const start = Math.max(track.starts[i], range[0] - pixel);
      const end = Math.min(track.starts[i] + track.lengths[i], range[1] + pixel);
      const row = rows.get(track.lane);
      if (end >= start || least) shapes.add(start, Math.max(end, start + least), row - HALF, row + HALF);
    }
    return shapes;
  }

  // One share on top of another; those of the host are high enough to be seen.
  function stackedSlots(lane) {
    const slots = lane.tracks.map((track) => slotsBetween(data, track, range[0], range[1], MOST_SLOTS));
    const height = new Float32Array(Math.max(...slots.map((own) => own.values.length)));
    return lane.tracks.map((track, n) => {
      const shapes = rectangles();
      const { width, first, values } = slots[n];
      values.forEach((share, i) => {
        if (!share) return;
        const part = Math.min(Math.max(share, lane.group === "host" ? 0.12 : 0), 1 - height[i]);
        const bottom = rows.get(track.lane) + HALF - 2 * HALF * height[i];
        height[i] += part;
        shapes.add((first + i) * width, (first + i + 1) * width, bottom - 2 * HALF * part, bottom);
      });
      return shapes;
    });
  }

  function trace(shapes, name, opacity, outline) {
    return {
      type: "scatter", mode: "lines", x: shapes.x, y: shapes.y, fill: "toself", hoverinfo: "skip",
      showlegend: false, opacity, fillcolor: color(name),
      line: { width: outline ? 1.5 : 0, color: color(outline ? "text" : name), simplify: false },
    };
  }

  function traces(width) {
    const pixel = (range[1] - range[0]) / Math.max(width, 100);
    const found = [boundaries()];
    for (const lane of shown) {
      const exact = isExact(data, lane, range[0], range[1], MOST_MARKS);
      const shapes = exact ? lane.tracks.map((track) => exactMarks(track, lane.group, pixel)) : stackedSlots(lane);
      lane.tracks.forEach((track, n) => {
        found.push(trace(shapes[n], syncscopeWords.kindOf(track.kind)[0], selected ? 0.25 : 1));
      });
    }
    return [...found, ...highlights(pixel), ...counterTraces()];
  }

  function highlights(pixel) {
    const found = [];
    for (const track of data.tracks) {
      const wanted = (i) => (selected && track.site(i) === selected.site) || (pointed && pointed.track === track && pointed.i === i);
      const group = data.lanes[track.lane].group;
      if (!rows.has(track.lane) || group === "stream" || !(selected || (pointed && pointed.track === track))) continue;
      const shapes = exactMarks(track, group, pixel, wanted);
      if (shapes.x.length) found.push(trace(shapes, syncscopeWords.kindOf(track.kind)[0], 1, true));
    }
    return found;
  }

  function stepsInView() {
    return data.steps.filter((step) => step.end >= range[0] && step.start <= range[1]);
  }

  function boundaries() {
    const steps = stepsInView();
    const x = [];
    const y = [];
    for (const step of steps.length <= 200 ? steps : []) {
      x.push(step.start / unit.ns, step.start / unit.ns, null, step.end / unit.ns, step.end / unit.ns, null);
      y.push(-0.5, shown.length - 0.5, null, -0.5, shown.length - 0.5, null);
    }
    return { type: "scatter", mode: "lines", x, y, hoverinfo: "skip", showlegend: false,
      line: { color: color("strong-line"), width: 1, dash: "dot" } };
  }

  // Counters of one unit share a row; devices and directions differ in dash.
  function counterTraces() {
    const dashes = ["solid", "dot", "dash", "dashdot"];
    return counterRows.flatMap((row, n) => row.counters.map((counter, m) => ({
      type: "scatter", mode: "lines", showlegend: false,
      x: counter.times.map((ns) => ns / unit.ns), y: counter.values, yaxis: "y" + (n + 2),
      line: { color: color(m % 2 ? "sync" : "transfer"), width: 1.5, dash: dashes[m % dashes.length] },
      hovertemplate: "%{y} " + counter.unit + "<extra>" + counter.label + ", GPU " + counter.device + "</extra>",
    })));
  }

  function stepNames() {
    const length = range[1] - range[0];
    const wide = stepsInView().filter((step) =>
      Math.min(step.end, range[1]) - Math.max(step.start, range[0]) > 0.06 * length);
    return wide.map((step) => ({
      x: Math.max(step.start, range[0]) / unit.ns, y: 1, yref: "paper", yanchor: "bottom",
      xanchor: "left", text: "step " + step.index, showarrow: false,
      font: { size: 11, color: color("muted") },
    }));
  }

  // From a wait to what it waited for, from a gap to what caused it: where few are in view.
  function arrows() {
    const few = range[1] - range[0] < 3.5 * stepLength();
    if (!few && !selected) return [];
    const { from, fromLane, to, toLane } = data.arrows;
    const found = arrowsBetween(data, ...range, MOST_ARROWS, selected ? selected.site : undefined);
    return found.filter((i) => rows.has(fromLane[i]) && rows.has(toLane[i])).map((i) => {
      const [above, below] = [rows.get(fromLane[i]), rows.get(toLane[i])];
      const down = below > above ? 1 : -1;
      return {
        x: to[i] / unit.ns, y: below - down * HALF, ax: from[i] / unit.ns, ay: above + down * HALF * 0.6,
        xref: "x", yref: "y", axref: "x", ayref: "y", text: "", showarrow: true,
        arrowhead: 2, arrowsize: 0.9, arrowwidth: 1.3, arrowcolor: color("text"), opacity: 0.75,
      };
    });
  }

  function counterAxes(height) {
    const axes = {};
    counterRows.forEach((row, n) => {
      const top = (counterRows.length - n) * COUNTER_ROW;
      axes["yaxis" + (n + 2)] = {
        domain: [(top - COUNTER_ROW) / height, (top - COUNTER_NAME) / height], fixedrange: true, rangemode: "tozero", nticks: 2,
        gridcolor: color("line"), zeroline: false, anchor: "x", range: row.unit === "%" ? [0, 105] : undefined,
      };
    });
    return axes;
  }

  function counterNames(height) {
    return counterRows.map((row, n) => ({
      x: 0, y: ((counterRows.length - n) * COUNTER_ROW - COUNTER_NAME) / height, xref: "paper", yref: "paper", xanchor: "left", xshift: -margin.l,
      yanchor: "bottom", showarrow: false, font: { size: 11, color: color("muted") },
      text: [...new Set(row.counters.map((one) => one.label))].join(" (solid), ") + (row.counters.length > 1 ? " (dotted), " : ", ") + row.unit,
    }));
  }

  function layout(width) {
    const height = ROW * shown.length + COUNTER_ROW * counterRows.length;
    return {
      width, height: margin.t + margin.b + height, margin, dragmode: "zoom", hovermode: "closest", showlegend: false,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: color("muted") },
      annotations: [...stepNames(), ...counterNames(height), ...arrows()],
      xaxis: { range: range.map((edge) => edge / unit.ns), gridcolor: color("line"), zeroline: false, anchor: counterRows.length ? "y" + (counterRows.length + 1) : "y",
        ticksuffix: " " + unit.name, tickcolor: color("line"), nticks: Math.round(width / 130), separatethousands: true },
      yaxis: { range: [shown.length - 0.5, -0.5], fixedrange: true, showgrid: false, zeroline: false,
        domain: [COUNTER_ROW * counterRows.length / height, 1], ticks: "outside", ticklen: 6, tickcolor: "rgba(0,0,0,0)",
        tickvals: shown.map((_, n) => n), ticktext: shown.map((lane) => plain(lane.label)) },
      ...counterAxes(height),
    };
  }

  // Lanes that are empty in this view need no room; of all empty ones the first keeps it.
  function arrange() {
    const full = data.lanes.filter((lane) => hasAny(data, lane, range[0], range[1]));
    shown = full.length ? full : data.lanes.slice(0, 1);
    rows = new Map(shown.map((lane, row) => [data.lanes.indexOf(lane), row]));
  }

  function draw() {
    arrange();
    const width = document.documentElement.dataset.printing === undefined ? element.clientWidth : 660;
    const config = { displayModeBar: false, doubleClick: false, showTips: false };
    return Plotly.react(element, traces(width - margin.l - margin.r), layout(width), config);
  }

  function go(start, end) {
    const limits = everything();
    const length = Math.min(Math.max(end - start, 200), limits[1] - limits[0]);
    const first = Math.min(Math.max((start + end - length) / 2, limits[0]), limits[1] - length);
    range = [first, first + length];
    return draw();
  }

  function scaled(shift, scale) {
    const half = (range[1] - range[0]) / 2;
    const middle = range[0] + half + shift * half;
    return go(middle - half * scale, middle + half * scale);
  }

  // The step in the middle; out of everything the usual one, where steps are known to be steady.
  function oneStep() {
    const middle = (range[0] + range[1]) / 2;
    const all = range[0] <= everything()[0] && range[1] >= everything()[1];
    const usual = all ? data.steps[data.typical] : undefined;
    const step = usual || data.steps.find((one) => one.end > middle) || data.steps[data.steps.length - 1];
    return go(...padded(step.start, step.end));
  }

  function showStep(index) {
    const step = data.steps.find((one) => one.index === index);
    if (step) go(...padded(step.start, step.end));
  }

  function around(mark) {
    const length = mark.track.lengths[mark.i];
    const room = Math.max(stepLength() * 0.6, length * 0.7);
    const middle = mark.track.starts[mark.i] + length / 2;
    return go(middle - room, middle + room);
  }

  function say(text, site) {
    document.getElementById("selection-text").textContent = text;
    document.querySelector(".selection").hidden = false;
    document.querySelector(".selection").classList.toggle("of-site", site);
  }

  function showOccurrence(number) {
    const all = selected.occurrences;
    selected.number = (number + all.length) % all.length;
    const one = all[selected.number];
    const site = data.sites[selected.site];
    say(site.location + "  " + site.expression + "  (event " + (selected.number + 1) + " of " + all.length + ", " +
      syncscopeWords.time(one.track.lengths[one.i]) + ")", true);
    return around(one);
  }

  function step(direction) {
    element.focus({ preventScroll: true });
    return selected ? showOccurrence(selected.number + direction) : point(direction);
  }

  // Events of the host come first: a site may have no gap of its own.
  function select(anchor) {
    const site = anchors.get(anchor);
    const own = occurrences(data, site, "host");
    const all = own.length ? own : occurrences(data, site, "gaps");
    if (!all.length) return;
    pointed = null;
    selected = { site, occurrences: all, number: 0 };
    const longest = all.reduce((best, { track, i }, n) =>
      (track.lengths[i] > all[best].track.lengths[all[best].i] ? n : best), 0);
    element.focus({ preventScroll: true });
    showOccurrence(longest);
  }

  function clear() {
    selected = pointed = null;
    document.querySelector(".selection").hidden = true;
    return draw();
  }

  // The keyboard's pointer: from one event of the host, or idle time that can be seen, to the next.
  function point(direction) {
    const edge = direction > 0 ? range[0] - 1 : range[1] + 1;
    const now = pointed ? pointed.track.starts[pointed.i] : edge;
    const found = neighbour(data, now, direction, (range[1] - range[0]) * LEAST_SEEN);
    if (!found) return;
    pointAt(found);
    const start = found.track.starts[found.i];
    if (start < range[0] || start > range[1]) around(found);
    else draw();
  }

  function pointAt(mark) {
    selected = null;
    pointed = mark;
    say(syncscopeWords.ofMark(data, mark).join(", "), false);
  }

  // An event that belongs to no line is only told of.
  function open(mark) {
    if (!mark) return;
    const site = data.sites[mark.track.site(mark.i)];
    if (site) {
      notify(site.anchor);
      return;
    }
    pointAt(mark);
    draw();
  }

  function openChosen() {
    if (selected) notify(data.sites[selected.site].anchor);
    else open(pointed);
  }

  const moves = {
    earlier: () => scaled(-0.8, 1), later: () => scaled(0.8, 1),
    in: () => scaled(0, 0.5), out: () => scaled(0, 2),
    all: () => go(...everything()), step: oneStep, clear,
    next: () => step(1), previous: () => step(-1),
  };
  const KEYS = {
    ArrowLeft: moves.earlier, ArrowRight: moves.later, "+": moves.in, "=": moves.in, "-": moves.out,
    Home: moves.all, s: moves.step, n: moves.next, p: moves.previous, Enter: openChosen, Escape: clear,
  };

  // What the mouse is at: lane, time and the time that a pixel is wide. Null outside the lanes.
  function under(event) {
    const box = element.getBoundingClientRect();
    const width = box.width - margin.l - margin.r;
    const x = event.clientX - box.left - margin.l;
    const row = Math.floor((event.clientY - box.top - margin.t) / ROW);
    if (x < 0 || x > width || !shown[row]) return null;
    const pixel = (range[1] - range[0]) / width;
    return { lane: shown[row], time: range[0] + x * pixel, pixel };
  }

  function hit(event) {
    const at = under(event);
    if (!at) return { mark: null, lines: [] };
    const exact = isExact(data, at.lane, range[0], range[1], MOST_MARKS);
    const mark = exact || at.lane.group === "host" ? markAt(at.lane, at.time, 3 * at.pixel) : null;
    if (mark) return { mark, lines: syncscopeWords.ofMark(data, mark) };
    if (exact) return { mark, lines: [] };
    const slots = at.lane.tracks.map((track) => slotsBetween(data, track, range[0], range[1], MOST_SLOTS));
    return { mark, lines: syncscopeWords.ofSlot(data, at.lane, slots, at.time) };
  }

  function showTip(event) {
    const { mark, lines } = hit(event);
    tip.hidden = !lines.length;
    element.classList.toggle("over-site", Boolean(mark && mark.track.site(mark.i) >= 0));
    if (tip.hidden) return;
    tip.replaceChildren(...lines.map((line) => Object.assign(document.createElement("span"), { textContent: line.slice(0, 160) })));
    const box = element.parentElement.getBoundingClientRect();
    tip.style.left = Math.max(0, Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4)) + "px";
    tip.style.top = event.clientY - box.top + 16 + "px";
  }

  function listen() {
    element.on("plotly_relayout", (change) => {
      if (change["xaxis.range[0]"] === undefined) return;
      go(change["xaxis.range[0]"] * unit.ns, change["xaxis.range[1]"] * unit.ns);
    });
    element.on("plotly_doubleclick", moves.all);
    // Plotly's own layer swallows clicks: a press that did not drag is one.
    let pressed = null;
    element.addEventListener("pointerdown", (event) => { pressed = [event.clientX, event.clientY]; }, true);
    window.addEventListener("pointerup", (event) => {
      if (pressed && Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) < 4) open(hit(event).mark);
      pressed = null;
    }, true);
    element.addEventListener("pointermove", showTip);
    element.addEventListener("pointerleave", () => { tip.hidden = true; });
    element.addEventListener("keydown", (event) => {
      if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      KEYS[event.key]();
    });
    document.querySelectorAll("[data-move]").forEach((button) => {
      button.addEventListener("click", () => moves[button.dataset.move]());
    });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    let resizing = 0;
    window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(draw, 150); });
    window.addEventListener("beforeprint", () => { document.documentElement.dataset.printing = ""; draw(); });
    window.addEventListener("afterprint", () => { delete document.documentElement.dataset.printing; draw(); });
  }

  function writeLegend() {
    const shown = new Set(data.tracks.map((track) => syncscopeWords.kindOf(track.kind)[0]));
    for (const [name, words] of syncscopeWords.LEGEND.filter((entry) => shown.has(entry[0]))) {
      const item = document.createElement("li");
      item.append(Object.assign(document.createElement("i"), { className: "swatch " + name }), words);
      document.getElementById("legend").append(item);
    }
  }

  async function start() {
    const description = JSON.parse(document.getElementById("timeline-data").textContent);
    data = await syncscopeTimelineData.read(description, document.getElementById("timeline-columns").textContent);
    unit = data.end > 2e10 ? { ns: 1e9, name: "s" } : { ns: 1e6, name: "ms" };
    const longestLabel = Math.max(...data.lanes.map((lane) => lane.label.length));
    margin = { l: Math.min(60 + 4.5 * longestLabel, 190), r: 12, t: 26, b: 40 };
    anchors = new Map(data.sites.map((site, number) => [site.anchor, number]));
    const units = [...new Set(data.counters.map((counter) => counter.unit))];
    counterRows = units.map((name) => ({ unit: name, counters: data.counters.filter((one) => one.unit === name) }));
    range = firstRange();
    writeLegend();
    await draw();
    listen();
    element.dataset.ready = "";
    const drawable = new Set();
    for (const track of data.tracks) for (let i = 0; i < track.starts.length; i++) drawable.add(track.site(i));
    return { has: (anchor) => drawable.has(anchors.get(anchor)), select, showStep };
  }

  return { ready: start(), onEvent: (handler) => { notify = handler; } };
})();
