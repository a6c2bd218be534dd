"use strict";
// What kinds of events are called and coloured, and what is said about one event.
const syncscopeWords = (() => {
  // Kind of event -> name of its colour (a variable of report.css), and its words.
  const KINDS = {
    sync: ["sync", "wait for the GPU"], idle_sync: ["sync", "idle: host waits for the GPU"],
    transfer: ["transfer", "copy between host and GPU"], memcpy: ["transfer", "copy"],
    idle_transfer: ["transfer", "idle: copies between host and GPU"],
    transfer_async: ["transfer_async", "copy that nobody waits for"],
    allocator: ["allocator", "allocator"], idle_allocator: ["allocator", "idle: allocator"],
    dataloader: ["dataloader", "DataLoader"], idle_dataloader: ["dataloader", "idle: DataLoader"],
    gc: ["gc", "garbage collector"], idle_gc: ["gc", "idle: garbage collector"],
    idle_launch: ["launch", "idle: slow launches"],
    idle_host_work: ["host_work", "idle: the host does other work"],
    idle_device_dependency: ["device_dependency", "idle: another stream"],
    idle_unknown: ["unknown", "idle: cause unknown"],
    race: ["race", "memory still being copied"], kernel: ["kernel", "kernel"], memset: ["memset", "memset"],
  };
  const LEGEND = [
    ["sync", "wait for the GPU"], ["transfer", "copy between host and GPU"],
    ["transfer_async", "copy that nobody waits for"], ["allocator", "allocator"],
    ["dataloader", "DataLoader"], ["gc", "garbage collector"], ["launch", "slow launches"], ["host_work", "other work of the host"],
    ["device_dependency", "another stream"], ["unknown", "cause unknown"],
    ["race", "memory still being copied"], ["kernel", "kernel"], ["memset", "memset"],
  ];

  function kindOf(name) {
    return KINDS[name] || ["unknown", name];
  }

  function time(ns) {
    for (const [factor, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
      if (ns >= factor) return Number((ns / factor).toPrecision(3)) + " " + name;
    }
    return Math.round(ns) + " ns";
  }

  function share(fraction) {
    return fraction < 0.01 ? "<1 %" : Math.round(Math.min(fraction, 1) * 100) + " %";
  }

  // Where in the run a time is: shown as the axis shows it.
  function place(data, ns) {
    const step = data.steps.find((one) => one.start <= ns && ns < one.end);
    return "at " + time(ns) + (step ? ", step " + step.index : "");
  }

  // Lines of text about one mark, the first of them its title.
  function ofMark(data, { track, i }) {
    const site = data.sites[track.site(i)];
    const label = data.labels[track.labels[i]];
    const estimated = data.simulated ? " (estimated)" : "";
    return [
      ...(site ? [site.expression, site.location] : []),
      ...(label ? [label] : []),
      kindOf(track.kind)[1] + ", " + time(track.lengths[i]) + estimated,
      place(data, track.starts[i]),
      ...(site ? ["click, or Enter, opens the line"] : []),
    ];
  }

  // Lines of text about a slot of a lane, in which events are too many to be told apart.
  function ofSlot(data, lane, slots, ns) {
    const shares = lane.tracks
      .map((track, n) => [kindOf(track.kind)[1], slots[n].values[Math.floor(ns / slots[n].width) - slots[n].first] || 0])
      .filter(([, value]) => value > 0)
      .map(([words, value]) => words + ": " + share(value));
    return shares.length ? [...shares, "of " + time(slots[0].width) + " " + place(data, ns), "zoom in for single events"] : [];
  }

  return { LEGEND, kindOf, time, ofMark, ofSlot };
})();
