// What stretch of an axis is in sight, and how wheel, fingers and a drag change it. Both graphs and tracks have one.

const STEP_MS = 180; // that a change of sight takes
const WHEEL = 0.0022; // of a pixel of the wheel
const DRAG = 4; // pixels from which on a pointer that is down drags

export class Sight {
  from = 0;
  span = 1;
  goal = [0, 1]; // from and span, once it has glided there
  #whole = [0, 1];
  #onChange;
  #frame = 0;

  constructor(onChange) {
    this.#onChange = onChange;
  }

  /** The whole axis, which sight never leaves. */
  bound(from, to) {
    this.#whole = [from, Math.max(to, from + 1)];
  }

  /** Moves there: at once, or gliding where the reader has not asked for less motion. */
  go(from, to, glide = true) {
    cancelAnimationFrame(this.#frame);
    const start = [this.from, this.span];
    const end = this.#clamped(from, to - from);
    this.goal = end;
    if (!glide || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.#set(...end);
      return;
    }
    const begin = performance.now();
    const step = (now) => {
      const part = Math.min(Math.max((now - begin) / STEP_MS, 0), 1);
      const eased = 1 - (1 - part) ** 3;
      // The span changes by equal factors, so that a zoom is as fast at its end as at its beginning.
      const span = start[1] * (end[1] / start[1]) ** eased;
      const share = start[1] === end[1] ? eased : (start[1] - span) / (start[1] - end[1]);
      this.#set(start[0] + (end[0] - start[0]) * share, span);
      if (part < 1) this.#frame = requestAnimationFrame(step);
    };
    this.#frame = requestAnimationFrame(step);
  }

  /** Zooms by a factor around a point, given as a share of what is in sight. */
  zoom(factor, share) {
    cancelAnimationFrame(this.#frame);
    const span = this.span * factor;
    this.goal = this.#clamped(this.from + (this.span - span) * share, span);
    this.#set(...this.goal);
  }

  pan(share) {
    cancelAnimationFrame(this.#frame);
    this.goal = this.#clamped(this.from + share * this.span, this.span);
    this.#set(...this.goal);
  }

  /** Whether all of it is in sight. */
  get isWhole() {
    const [from, span] = this.goal;
    return from <= this.#whole[0] && from + span >= this.#whole[1];
  }

  #set(from, span) {
    this.from = from;
    this.span = span;
    this.#onChange();
  }

  #clamped(from, span) {
    const [first, last] = this.#whole;
    const size = Math.min(Math.max(span, (last - first) * 1e-7, 1), last - first);
    return [Math.min(Math.max(from, first), last - size), size];
  }

  /**
   * Wheel with Ctrl, or two fingers, zoom; a drag pans. Vertical wheeling stays the page's.
   * @param {HTMLElement} box
   * @param {boolean} drags  whether one pointer pans
   */
  listen(box, drags) {
    const pointers = new Map();
    let moved = 0;
    box.addEventListener(
      "wheel",
      (event) => {
        const isPan = !event.ctrlKey && Math.abs(event.deltaX) > Math.abs(event.deltaY);
        if (!event.ctrlKey && !event.metaKey && !isPan) return;
        event.preventDefault();
        const area = box.getBoundingClientRect();
        if (isPan) this.pan(event.deltaX / area.width);
        else this.zoom(Math.exp(event.deltaY * WHEEL), (event.clientX - area.left) / area.width);
      },
      { passive: false },
    );
    box.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      pointers.set(event.pointerId, event.clientX);
      moved = 0;
    });
    box.addEventListener("pointermove", (event) => {
      if (!pointers.has(event.pointerId)) return;
      const area = box.getBoundingClientRect();
      const before = pointers.get(event.pointerId);
      const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
      moved += Math.abs(event.clientX - before);
      pointers.set(event.pointerId, event.clientX);
      if (other !== undefined) {
        const factor = Math.max(Math.abs(before - other), 8) / Math.max(Math.abs(event.clientX - other), 8);
        this.zoom(factor, (other - area.left) / area.width);
      } else if (drags && moved > DRAG) {
        box.setPointerCapture(event.pointerId);
        this.pan((before - event.clientX) / area.width);
      }
    });
    for (const end of ["pointerup", "pointercancel"]) {
      box.addEventListener(end, (event) => pointers.delete(event.pointerId));
    }
    // What ends a drag is no click.
    box.addEventListener("click", (event) => drags && moved > DRAG && event.stopImmediatePropagation(), true);
  }
}
