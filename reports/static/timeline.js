"use strict";
// Draws the timeline with plotly: one bar trace for each lane and kind of event, of which
// only the marks in view are handed to plotly, so that zooming stays quick.
const syncscopeTimeline = (() => {
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const element = document.getElementById("syncscope-timeline");
  const unit = data.end > 2e10 ? { ns: 1e9, name: "s" } : { ns: 1e6, name: "ms" };
  // Kind of event -> name of its colour, and its words; equal colours share a legend entry.
  const KINDS = {
    sync: ["sync", "wait for the GPU"], idle_sync: ["sync", "idle: host waits for the GPU"],
    transfer: ["transfer", "copy between host and GPU"], memcpy: ["transfer", "copy"],
    idle_transfer: ["transfer", "idle: copies between host and GPU"],
    transfer_async: ["transfer", "copy that nobody waits for"],
    allocator: ["allocator", "allocator"], idle_allocator: ["allocator", "idle: allocator"],
    dataloader: ["dataloader", "DataLoader"], idle_dataloader: ["dataloader", "idle: DataLoader"],
    gc: ["gc", "garbage collector"], idle_gc: ["gc", "idle: garbage collector"],
    idle_launch: ["launch", "idle: slow launches"],
    idle_device_dependency: ["device_dependency", "idle: another stream"],
    idle_unknown: ["unknown", "idle: cause unknown"],
    race: ["race", "memory still being copied"], kernel: ["kernel", "kernel"], memset: ["memset", "memset"],
  };
  const LEGEND = [
    ["sync", "wait for the GPU"], ["transfer", "copy between host and GPU"],
    ["transfer_async", "copy that nobody waits for"], ["allocator", "allocator"],
    ["dataloader", "DataLoader"], ["gc", "garbage collector"], ["launch", "slow launches"],
    ["device_dependency", "another stream"], ["unknown", "cause unknown"],
    ["race", "memory still being copied"], ["kernel", "kernel"], ["memset", "memset"],
  ];
  const anchors = new Map(data.sites.map((site, number) => [site.anchor, number]));
  const steps = data.steps;
  const longestLabel = Math.max(...data.lanes.map((lane) => lane.label.length));
  const margin = { l: Math.min(60 + 4.5 * longestLabel, 190), r: 12, t: 26, b: 40 };
  let range = firstRange();
  let selected = null;
  let drawn = [];
  let notify = () => {};

  function kindOf(track) {
    return KINDS[track.kind] || ["unknown", track.kind];
  }

  function siteOf(track, i) {
    return track.site ? track.site[i] : -1;
  }

  function stepLength() {
    const lengths = steps.map((step) => step[2] - step[1]).sort((a, b) => a - b);
    return lengths.length > 1 ? lengths[lengths.length >> 1] : data.end / 10;
  }

  // Many steps at once show nothing: begin with three in the middle.
  function firstRange() {
    if (steps.length < 6) return everything();
    const middle = steps.length >> 1;
    return padded(steps[middle - 1][1], steps[middle + 1][2]);
  }

  function everything() {
    return padded(0, data.end);
  }

  function padded(start, end) {
    const room = Math.max((end - start) * 0.01, 500);
    return [start - room, end + room];
  }

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  // Plotly reads some HTML in hover texts: names must not be taken for it.
  function plain(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function time(ns) {
    for (const [factor, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
      if (ns >= factor) return Number((ns / factor).toPrecision(3)) + " " + name;
    }
    return ns + " ns";
  }

  function stepAt(ns) {
    const step = steps.find((row) => row[1] <= ns && ns < row[2]);
    return step ? ", step " + step[0] : "";
  }

  function hoverText(track, mark) {
    const label = data.labels[track.label[mark.i]];
    const site = data.sites[siteOf(track, mark.i)];
    const kind = plain(kindOf(track)[1]);
    const estimated = data.simulated ? " (estimated)" : "";
    const lines = [];
    if (site) lines.push("<b>" + plain(site.expression.slice(0, 80)) + "</b>", plain(site.location));
    if (mark.count > 1) {
      lines.push(mark.count + " events drawn as one, filling " + share(mark.busy / mark.length) + ", among them");
    }
    if (label) lines.push(plain(label.slice(0, 100)));
    lines.push(kind + ", " + time(mark.count > 1 ? mark.busy : track.length[mark.i]) + (mark.count > 1 ? " in all" : "") + estimated);
    lines.push("at " + time(track.start[mark.i]) + stepAt(track.start[mark.i]));
    if (site) lines.push("<i>click to open the line</i>");
    return lines.join("<br>");
  }

  function share(fraction) {
    return fraction < 0.01 ? "&lt;1 %" : Math.round(Math.min(fraction, 1) * 100) + " %";
  }

  // Marks in view. Those narrower than a pixel or so are gathered, and drawn as opaque as they
  // fill their place: many short idle times must not look like one long one.
  function visible(track, pixel) {
    const found = [];
    let gathered = null;
    for (let i = 0; i < track.start.length; i++) {
      const start = track.start[i];
      const length = track.length[i];
      const end = start + length;
      if (start > range[1] || end + pixel < range[0]) continue;
      const mark = { i, start, length, busy: track.busy ? track.busy[i] : length, count: track.count ? track.count[i] : 1 };
      if (length >= 1.5 * pixel) {
        gathered = null;
        found.push(mark);
      } else if (gathered && end - gathered.start <= 2.5 * pixel) {
        if (length > track.length[gathered.i]) gathered.i = i;
        gathered.length = Math.max(gathered.length, end - gathered.start);
        gathered.busy += mark.busy;
        gathered.count += mark.count;
      } else {
        gathered = { ...mark, length: Math.max(length, pixel) };
        found.push(gathered);
      }
    }
    return found;
  }

  // What is rare must stay visible, above all on the host, where events are looked for.
  const FAINTEST = { host: 0.5, gaps: 0.12, stream: 0.2 };

  function opacity(mark, group) {
    return Math.min(1, Math.max(mark.busy / mark.length, FAINTEST[group]));
  }

  function bars(track, marks, solid) {
    const group = data.lanes[track.lane].group;
    const strength = track.kind === "transfer_async" && !solid ? 0.45 : 1;
    return {
      type: "bar", orientation: "h", customdata: marks.map((mark) => mark.i), showlegend: false,
      base: marks.map((mark) => mark.start / unit.ns), x: marks.map((mark) => mark.length / unit.ns),
      y: marks.map(() => track.lane), width: group === "gaps" ? 0.84 : 0.6,
      hovertext: marks.map((mark) => hoverText(track, mark)), hoverinfo: "text",
      marker: {
        color: color(kindOf(track)[0]), line: { width: 0 },
        opacity: solid ? 1 : marks.map((mark) => strength * opacity(mark, group)),
      },
    };
  }

  function traces(width) {
    const pixel = (range[1] - range[0]) / Math.max(width, 100);
    drawn = [];
    const found = [boundaries()];
    for (const track of data.tracks) {
      const trace = bars(track, visible(track, pixel), false);
      if (selected) trace.opacity = 0.22;
      drawn[found.length] = track;
      found.push(trace);
    }
    if (selected) found.push(...highlights(pixel, found));
    return found;
  }

  function highlights(pixel, found) {
    return data.tracks.filter((track) => track.site).map((track, n) => {
      const own = visible(track, pixel).filter((mark) => track.site[mark.i] === selected.site);
      const trace = bars(track, own, true);
      trace.marker.line = { width: 1.5, color: color("text") };
      drawn[found.length + n] = track;
      return trace;
    });
  }

  function stepsInView() {
    return steps.filter((step) => step[2] >= range[0] && step[1] <= range[1]);
  }

  function boundaries() {
    const shown = stepsInView();
    const x = [];
    const y = [];
    for (const step of shown.length <= 200 ? shown : []) {
      for (const edge of [step[1], step[2]]) {
        x.push(edge / unit.ns, edge / unit.ns, null);
        y.push(-0.5, data.lanes.length - 0.5, null);
      }
    }
    return { type: "scatter", mode: "lines", x, y, hoverinfo: "skip", showlegend: false,
      line: { color: color("strong-line"), width: 1, dash: "dot" } };
  }

  function stepNames() {
    const shown = stepsInView();
    const length = range[1] - range[0];
    const wide = shown.filter((step) =>
      Math.min(step[2], range[1]) - Math.max(step[1], range[0]) > 0.06 * length);
    return wide.map((step) => ({
      x: Math.max(step[1], range[0]) / unit.ns, y: 1, yref: "paper", yanchor: "bottom",
      xanchor: "left", text: "step " + step[0], showarrow: false,
      font: { size: 11, color: color("muted") },
    }));
  }

  function layout(width) {
    return {
      width, height: margin.t + margin.b + 34 * data.lanes.length, margin, barmode: "overlay",
      dragmode: "zoom", hovermode: "closest", showlegend: false,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: color("muted") },
      hoverlabel: { align: "left", bgcolor: color("page"), bordercolor: color("strong-line"),
        font: { color: color("text"), size: 12 }, namelength: 0 },
      annotations: stepNames(),
      xaxis: { range: range.map((edge) => edge / unit.ns), gridcolor: color("line"), zeroline: false,
        ticksuffix: " " + unit.name, tickcolor: color("line"), nticks: 9, separatethousands: true },
      yaxis: { range: [data.lanes.length - 0.5, -0.5], fixedrange: true, showgrid: false, zeroline: false,
        ticks: "outside", ticklen: 6, tickcolor: "rgba(0,0,0,0)",
        tickvals: data.lanes.map((_, n) => n), ticktext: data.lanes.map((lane) => plain(lane.label)) },
    };
  }

  function draw() {
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

  function oneStep() {
    const middle = (range[0] + range[1]) / 2;
    const step = steps.find((row) => row[2] > middle) || steps[steps.length - 1];
    return go(...padded(step[1], step[2]));
  }

  // Events of the host come first: a site may have no gap of its own.
  function occurrences(site) {
    for (const wanted of ["host", "gaps"]) {
      const found = [];
      for (const track of data.tracks.filter((t) => t.site && data.lanes[t.lane].group === wanted)) {
        track.site.forEach((s, i) => {
          if (s === site) found.push({ start: track.start[i], length: track.length[i] });
        });
      }
      if (found.length) return found.sort((a, b) => a.start - b.start);
    }
    return [];
  }

  function showOccurrence(number) {
    const all = selected.occurrences;
    selected.number = (number + all.length) % all.length;
    const one = all[selected.number];
    const site = data.sites[selected.site];
    document.getElementById("selection-text").textContent =
      site.location + "  " + site.expression + "  (event " + (selected.number + 1) + " of " + all.length + ", " + time(one.length) + ")";
    document.querySelector(".selection").hidden = false;
    const room = Math.max(stepLength() * 0.6, one.length * 0.7);
    const middle = one.start + one.length / 2;
    return go(middle - room, middle + room);
  }

  function select(anchor) {
    const site = anchors.get(anchor);
    const all = occurrences(site);
    if (!all.length) return;
    selected = { site, occurrences: all, number: 0 };
    const longest = all.reduce((best, one, i) => (one.length > all[best].length ? i : best), 0);
    showOccurrence(longest);
  }

  function clear() {
    selected = null;
    document.querySelector(".selection").hidden = true;
    return draw();
  }

  const moves = {
    earlier: () => scaled(-0.8, 1), later: () => scaled(0.8, 1),
    in: () => scaled(0, 0.5), out: () => scaled(0, 2),
    all: () => go(...everything()), step: oneStep, clear,
    next: () => showOccurrence(selected.number + 1),
    previous: () => showOccurrence(selected.number - 1),
  };

  function listen() {
    element.on("plotly_relayout", (change) => {
      if (change["xaxis.range[0]"] === undefined) return;
      go(change["xaxis.range[0]"] * unit.ns, change["xaxis.range[1]"] * unit.ns);
    });
    element.on("plotly_doubleclick", moves.all);
    element.on("plotly_click", (event) => {
      const point = event.points[0];
      const site = data.sites[siteOf(drawn[point.curveNumber], point.customdata)];
      if (site) notify(site.anchor);
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
    const shown = new Set(data.tracks.map((track) =>
      (track.kind === "transfer_async" ? track.kind : kindOf(track)[0])));
    for (const [name, words] of LEGEND.filter((entry) => shown.has(entry[0]))) {
      const item = document.createElement("li");
      const swatch = document.createElement("i");
      swatch.className = "swatch " + name;
      item.append(swatch, words);
      document.getElementById("legend").append(item);
    }
  }

  const drawable = new Set();
  for (const track of data.tracks) (track.site || []).forEach((site) => drawable.add(site));

  writeLegend();
  draw().then(listen);
  return {
    has: (anchor) => drawable.has(anchors.get(anchor)),
    select,
    onEvent: (handler) => { notify = handler; },
  };
})();
