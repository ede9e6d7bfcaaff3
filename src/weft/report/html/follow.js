// Keeps a page that is served up to date: with the recording while it runs, and with what the reader looks at.

import { askForData } from "./ask.js";
import { $ } from "./describe.js";
import { count } from "./format.js";
import { readModel } from "./model.js";

const LEAST_MS = 2000; // between two questions
const PAUSE = 9; // times as long as the last answer took to show: that takes a tenth of the time at most
const MOST_PATH = 1000; // frames; what lies beneath a part of the path is told, too
const QUIET_S = 10; // without a word from a recorder, which writes each second, before that is said
const HELD_MS = 100; // until the reader is asked again whether he has let go

export class Follower {
  #page;
  #timer = 0;
  #isAsking = false;
  #isPaused = false;
  #isHeld = false; // a pointer is down: what it drags over must not move
  #wasRecording;
  #trouble = "";
  #quietS = 0;

  constructor(page) {
    this.#page = page;
    this.#wasRecording = page.model.recording;
    page.on.looked = () => this.#look();
    $("live").querySelector("button").addEventListener("click", () => this.#press());
    const held = (isHeld) => () => (this.#isHeld = isHeld);
    addEventListener("pointerdown", held(true), true);
    for (const end of ["pointerup", "pointercancel", "dragend"]) addEventListener(end, held(false), true);
    this.#tell();
    this.#wait(LEAST_MS);
    this.#look();
  }

  #wait(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), ms);
  }

  #press() {
    if (this.#trouble !== "") this.#trouble = "";
    else this.#isPaused = !this.#isPaused;
    this.#tell();
    if (!this.#isPaused) this.#wait(0);
  }

  /** The reader has zoomed, or chosen a stretch of time. */
  #look() {
    if (this.#trouble === "" && !isSame(this.#focus(), this.#page.model.focus)) this.#wait(0);
  }

  /** Where the reader looks, if something there is not told apart; else where it was. */
  #focus() {
    const { model, choice } = this.#page;
    const focus = { ...model.focus };
    if (this.#page.hasPruned()) focus.path = this.#page.zoomedFrames().slice(0, MOST_PATH);
    if (model.sliceUs > 0 && choice.range) {
      focus.window = [Math.floor(choice.range[0] / 1000), Math.ceil(choice.range[1] / 1000) + 1];
    }
    return focus;
  }

  async #ask() {
    const { model } = this.#page;
    const focus = this.#focus();
    const isLooking = !isSame(focus, model.focus);
    if (this.#isAsking || this.#trouble !== "" || (!isLooking && !model.recording)) return;
    let pause = LEAST_MS;
    if (isLooking || (!this.#isPaused && !document.hidden)) {
      this.#isAsking = true;
      this.#tell(isLooking);
      try {
        const { data, quietS } = await askForData(model.version, focus);
        this.#quietS = quietS;
        while (this.#isHeld) await new Promise((done) => setTimeout(done, HELD_MS));
        const began = performance.now();
        if (data) this.#page.renew(readModel(data));
        pause = Math.max(pause, PAUSE * (performance.now() - began));
      } catch (error) {
        this.#trouble = error instanceof TypeError ? "weft view does not answer any more" : error.message;
      }
      this.#isAsking = false;
      this.#tell();
    }
    this.#wait(pause);
    this.#look();
  }

  #state(isLooking) {
    const { recording, ended } = this.#page.model;
    if (this.#trouble) return ["trouble", this.#trouble];
    if (isLooking) return ["looking", "telling apart what was pruned …"];
    if (!recording) return ["ended", ended ? `the recording has ended: ${ended}` : "the recording has ended"];
    if (this.#isPaused) return ["paused", "paused at"];
    return this.#quietS < QUIET_S ? ["recording", "recording,"] : ["quiet", "nothing has been written for"];
  }

  /** Says how things stand. Only changes of it are read out: not each second. */
  #tell(isLooking = false) {
    const { unnamed, durationUs } = this.#page.model;
    const [state, words] = this.#state(isLooking);
    const isRunning = state === "recording" || state === "paused";
    const shownS = state === "quiet" ? this.#quietS : Math.floor(durationUs / 1e6);
    const more = isRunning || state === "quiet" ? count(shownS, "s", "s") : "";
    const mark = $("live");
    const [, status, time, hint, button] = mark.children;
    mark.dataset.state = state;
    mark.hidden = state === "ended" && !this.#wasRecording;
    if (status.textContent !== words) status.textContent = words;
    time.textContent = more;
    hint.hidden = !(unnamed && isRunning);
    button.hidden = state === "ended" || state === "looking";
    button.textContent = this.#trouble ? "Try again" : this.#isPaused ? "Go on" : "Pause";
    for (const id of ["selected", "about"]) $(id).ariaLive = state === "recording" ? "off" : "polite";
  }
}

function isSame(one, other) {
  return one.path.join() === other.path.join() && String(one.window) === String(other.window);
}
