"use strict";
// Reads the columns that reports/packed_columns.py wrote: base64, deflate, byte planes.
const syncscopeColumns = (() => {
  function bytesOf(base64) {
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }

  async function inflated(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // The planes of one column put together again. Eight bytes fit a double up to 2 ** 53.
  function joined(bytes, offset, width, length) {
    const kinds = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: Float64Array };
    const values = new kinds[width](length);
    for (let plane = 0, factor = 1; plane < width; plane++, factor *= 256) {
      const start = offset + plane * length;
      for (let i = 0; i < length; i++) values[i] += bytes[start + i] * factor;
    }
    return values;
  }

  // All columns, in their order. `sizes` holds a pair for each: bytes per value, values.
  async function unpack(base64, sizes) {
    const bytes = await inflated(bytesOf(base64));
    let offset = 0;
    return sizes.map(([width, length]) => {
      const values = joined(bytes, offset, width, length);
      offset += width * length;
      return values;
    });
  }

  function summed(steps) {
    const values = new Float64Array(steps.length);
    let sum = 0;
    for (let i = 0; i < steps.length; i++) values[i] = sum += steps[i];
    return values;
  }

  return { unpack, summed };
})();
