"use strict";
// The timeline's tracks and what of them lies in a stretch of time. Knows nothing of the page.
// Times are ns since the timeline's start.
const syncscopeTimelineData = (() => {
  // The first index whose value is at least `wanted`, in rising values.
  function lowerBound(values, wanted) {
    let low = 0;
    let high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Coarser and coarser shares: each level has half as many slots as the one before.
  function levelsOf(fill) {
    let shares = new Float32Array(fill.length);
    for (let i = 0; i < fill.length; i++) shares[i] = fill[i] / 65535;
    const levels = [shares];
    while (shares.length > 1) {
      const fine = shares;
      shares = new Float32Array(fine.length >> 1);
      for (let i = 0; i < shares.length; i++) shares[i] = (fine[2 * i] + fine[2 * i + 1]) / 2;
      levels.push(shares);
    }
    return levels;
  }

  function trackOf(described, columns) {
    const starts = syncscopeColumns.summed(columns[described.starts]);
    const lengths = columns[described.lengths];
    const labels = columns[described.label];
    const sites = described.site === undefined ? null : columns[described.site];
    // How far the marks up to each one reach: they may contain one another.
    const reach = new Float64Array(starts.length);
    for (let i = 0, far = 0; i < starts.length; i++) reach[i] = far = Math.max(far, starts[i] + lengths[i]);
    return {
      lane: described.lane, kind: described.kind, starts, lengths, labels,
      levels: levelsOf(columns[described.fill]),
      site: (i) => (sites ? sites[i] - 1 : -1),
      // Indices of the marks between two times: [first, one past the last].
      between: (start, end) => [lowerBound(reach, start), lowerBound(starts, end)],
    };
  }

  function stepsOf(described, columns) {
    const starts = syncscopeColumns.summed(columns[described.starts]);
    return Array.from(starts, (start, i) =>
      ({ index: columns[described.index][i], start, end: start + columns[described.lengths][i] }));
  }

  async function read(description, base64) {
    const columns = await syncscopeColumns.unpack(base64, description.columns);
    const tracks = description.tracks.map((track) => trackOf(track, columns));
    const lanes = description.lanes.map((lane, number) =>
      ({ ...lane, tracks: tracks.filter((track) => track.lane === number) }));
    const { from, fromLane, to, toLane, site, weight } = description.arrows;
    const arrows = {
      from: syncscopeColumns.summed(columns[from]), fromLane: columns[fromLane], to: columns[to],
      toLane: columns[toLane], site: columns[site], weight: columns[weight],
    };
    return { ...description, tracks, lanes, arrows, steps: stepsOf(description.steps, columns) };
  }

  // Whether a lane can be drawn event by event: all of them are there, and they are few.
  function isExact(data, lane, start, end, most) {
    const held = lane.group === "host" || data.detail.some((span) =>
      span[0] <= Math.max(start, 0) && Math.min(end, data.end) <= span[1]);
    if (!held) return false;
    const counts = lane.tracks.map((track) => track.between(start, end)).map(([a, b]) => b - a);
    return counts.reduce((sum, count) => sum + count, 0) <= most;
  }

  // Whether a lane has anything between two times.
  function hasAny(data, lane, start, end) {
    return lane.tracks.some((track) => {
      const [first, last] = track.between(start, end);
      return last > first || slotsBetween(data, track, start, end, Infinity).values.some((share) => share > 0);
    });
  }

  // The shares of a track in slots between two times, on the finest level with at most `most`.
  function slotsBetween(data, track, start, end, most) {
    let level = 0;
    let width = data.slot;
    while ((end - start) / width > most && level < track.levels.length - 1) {
      level += 1;
      width *= 2;
    }
    const values = track.levels[level];
    const first = Math.max(Math.floor(start / width), 0);
    return { width, first, values: values.subarray(first, Math.max(Math.ceil(end / width), first)) };
  }

  // The mark of a lane at a time, or the nearest within `slack`; of several the shortest.
  function markAt(lane, time, slack) {
    let best = null;
    for (const track of lane.tracks) {
      const [first, last] = track.between(time - slack, time + slack);
      for (let i = Math.max(first, last - 2000); i < last; i++) {
        const start = track.starts[i];
        const distance = Math.max(start - time, time - start - track.lengths[i], 0);
        if (distance > slack) continue;
        const better = !best || distance < best.distance ||
          (distance === best.distance && track.lengths[i] < best.track.lengths[best.i]);
        if (better) best = { track, i, distance };
      }
    }
    return best;
  }

  // The arrows that begin between two times, the longest waits first; of one site if given.
  function arrowsBetween(data, start, end, most, site) {
    const { from, weight } = data.arrows;
    const found = [];
    for (let i = lowerBound(from, start); i < lowerBound(from, end); i++) {
      if (site === undefined || data.arrows.site[i] - 1 === site) found.push(i);
    }
    return found.sort((a, b) => weight[b] - weight[a]).slice(0, most);
  }

  // Marks of a site in the lanes of a group, by time.
  function occurrences(data, site, group) {
    const found = [];
    for (const lane of data.lanes.filter((one) => one.group === group)) {
      for (const track of lane.tracks) {
        for (let i = 0; i < track.starts.length; i++) if (track.site(i) === site) found.push({ track, i });
      }
    }
    return found.sort((a, b) => a.track.starts[a.i] - b.track.starts[b.i]);
  }

  // The nearest mark of the host, or gap of at least this length, that begins after
  // (direction 1) or before (-1) a time.
  function neighbour(data, time, direction, leastGap) {
    let best = null;
    for (const lane of data.lanes.filter((one) => one.group === "host" || one.group === "gaps")) {
      const least = lane.group === "gaps" ? leastGap : 0;
      for (const track of lane.tracks) {
        let i = direction > 0 ? lowerBound(track.starts, time + 1) : lowerBound(track.starts, time) - 1;
        while (track.lengths[i] < least) i += direction;
        if (i < 0 || i >= track.starts.length) continue;
        if (!best || (track.starts[i] - best.track.starts[best.i]) * direction < 0) best = { track, i };
      }
    }
    return best;
  }

  return { read, isExact, hasAny, slotsBetween, markAt, arrowsBetween, occurrences, neighbour, lowerBound };
})();
