// Boxes without edges, made in memory and put on a canvas at once. A browser without a GPU takes several times as long for
// as many rectangles.

export class Sketch {
  #image = null;
  #pixels;
  #line; // a row's pixels, of which it has so many lines
  #paper;
  #ratio;
  #known = new Map(); // colours as pixels have them

  begin(canvas, paper) {
    const { width, height } = canvas;
    if (this.#image?.width !== width || this.#image.height !== height) {
      this.#image = new ImageData(width, height);
      this.#pixels = new Uint32Array(this.#image.data.buffer);
      this.#line = new Uint32Array(width);
    }
    this.#ratio = window.devicePixelRatio;
    this.#paper = this.#pixel(paper);
    this.#pixels.fill(this.#paper);
    this.#line.fill(this.#paper);
  }

  /** A box of the row at hand, in CSS pixels. */
  box(left, right, fill) {
    const from = Math.round(left * this.#ratio);
    const to = Math.max(Math.round(right * this.#ratio), from + 1);
    this.#line.fill(this.#pixel(fill), Math.max(from, 0), Math.max(to, 0));
  }

  /** The row is at y, and so high; the next one begins. */
  row(y, height) {
    const { width, height: last } = this.#image;
    const [from, to] = [Math.round(y * this.#ratio), Math.round((y + height) * this.#ratio)];
    for (let at = Math.max(from, 0); at < Math.min(to, last); at++) this.#pixels.set(this.#line, at * width);
    this.#line.fill(this.#paper);
  }

  put(context) {
    context.putImageData(this.#image, 0, 0);
  }

  /** "#rrggbb" as the bytes red, green, blue, 255 in the order of the machine. */
  #pixel(fill) {
    let pixel = this.#known.get(fill);
    if (pixel === undefined) {
      const parts = [1, 3, 5].map((at) => Number.parseInt(fill.slice(at, at + 2), 16));
      [pixel] = new Uint32Array(Uint8Array.of(...parts, 255).buffer);
      this.#known.set(fill, pixel);
    }
    return pixel;
  }
}
