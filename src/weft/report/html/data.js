// Opens the data that the page holds or is given; src/weft/report/html/pack.py tells how they are packed.

const ZIGZAG = 1;
const DELTA = 2;

/**
 * @param {string | Uint8Array} packed  what pack.py wrote; as text, it is base64
 * @returns {Promise<{head: object, column: (name: string) => Uint8Array | Uint16Array | Float64Array}>}
 */
export async function unpack(packed) {
  const stream = new Blob([typeof packed === "string" ? fromBase64(packed.trim()) : packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const columns = new Map();
  let at = 4 + length;
  for (const [name, count, width, code] of head.columns) {
    columns.set(name, decode(bytes.subarray(at, at + count * width), count, width, code));
    at += count * width;
  }
  return { head, column: (name) => columns.get(name) };
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Numbers up to 2**53 are exact. */
function decode(planes, count, width, code) {
  if (width === 1 && code === 0) return planes.slice();
  const numbers = width === 2 && code === 0 ? new Uint16Array(count) : new Float64Array(count);
  for (let plane = width - 1; plane >= 0; plane--) {
    const from = plane * count;
    for (let i = 0; i < count; i++) numbers[i] = numbers[i] * 256 + planes[from + i];
  }
  if (code >= ZIGZAG) {
    for (let i = 0; i < count; i++) numbers[i] = numbers[i] % 2 === 1 ? -(numbers[i] + 1) / 2 : numbers[i] / 2;
  }
  if (code === DELTA) {
    for (let i = 1; i < count; i++) numbers[i] += numbers[i - 1];
  }
  return numbers;
}
