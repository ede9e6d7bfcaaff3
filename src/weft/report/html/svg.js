// The view as a picture: what the painters draw, as SVG instead of pixels; and either kind saved as a file.

const MARKUP = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** As much of a canvas' context as the painters use. */
export class SvgContext {
  fillStyle = "#000";
  strokeStyle = "#000";
  lineWidth = 1;
  font = "";
  textBaseline = "";
  direction = "";
  #parts = [];
  #path = "";
  #measuring = document.createElement("canvas").getContext("2d");

  constructor(width, height) {
    this.width = width;
    this.height = height;
  }

  fillRect(x, y, width, height) {
    this.#rect(x, y, width, height, 0);
  }

  beginPath() {
    this.#path = "";
  }

  roundRect(x, y, width, height, radius) {
    this.#path = [x, y, width, height, radius];
  }

  fill() {
    this.#rect(...this.#path);
  }

  strokeRect(x, y, width, height) {
    const place = `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"`;
    this.#parts.push(`<rect ${place} fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"/>`);
  }

  fillText(text, x, y) {
    if (text === "") return;
    const place = `x="${short(x)}" y="${short(y)}" fill="${this.fillStyle}"`;
    this.#parts.push(`<text ${place}>${text.replace(/[&<>"]/g, (c) => MARKUP[c])}</text>`);
  }

  measureText(text) {
    this.#measuring.font = this.font;
    return this.#measuring.measureText(text);
  }

  #rect(x, y, width, height, radius) {
    const place = `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"`;
    const round = radius > 0 ? ` rx="${radius}"` : "";
    this.#parts.push(`<rect ${place}${round} fill="${this.fillStyle}"/>`);
  }

  toString() {
    const size = `width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}"`;
    const font = `style="font:${this.font.replace(/"/g, "'")}"`;
    const open = `<svg xmlns="http://www.w3.org/2000/svg" ${size}>\n<g ${font} dominant-baseline="central">`;
    return `${open}\n${this.#parts.join("\n")}\n</g>\n</svg>\n`;
  }
}

function short(number) {
  return String(Math.round(number * 100) / 100);
}

/** A canvas of this size as a context, twice as fine as CSS pixels. */
export function pictureContext(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = width * 2;
  canvas.height = Math.min(height * 2, 16_000); // browsers have larger ones fail
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  return context;
}

/** Saves a view's drawing; `draw` is given what makes a context of some size, and returns the context. */
export async function save(format, name, draw) {
  const context = draw((width, height) =>
    format === "svg" ? new SvgContext(width, height) : pictureContext(width, height),
  );
  const blob =
    format === "svg"
      ? new Blob([String(context)], { type: "image/svg+xml" })
      : await new Promise((done) => context.canvas.toBlob(done, "image/png"));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${name}.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
