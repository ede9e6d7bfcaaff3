// What a page that is served asks its server for. The addresses are relative: the token of the page's own is in them.

import { unpack } from "./data.js";

/**
 * The data of the capture as it is now, most finely where the page looks.
 * @param {string} have  the version of what is known
 * @param {{path: number[], window: [number, number] | null}} focus  frames; us
 * @returns {Promise<{data: object | null, quietS: number}>}  what unpack() gives (null: nothing new), and for how long nothing
 *   has been written to the capture
 * @throws {Error}  with the server's words, or TypeError: it does not answer
 */
export async function askForData(have = "", focus = { path: [], window: null }) {
  const words = new URLSearchParams();
  if (have !== "") words.set("have", have);
  if (focus.path.length > 0) words.set("path", focus.path.join("."));
  if (focus.window) {
    words.set("from", focus.window[0]);
    words.set("to", focus.window[1]);
  }
  const answer = await ask(`data?${words}`);
  const data = answer.status === 204 ? null : await unpack(new Uint8Array(await answer.arrayBuffer()));
  return { data, quietS: Number(answer.headers.get("Weft-Quiet-S")) };
}

/** The text of a file, by the number of its name. */
export async function askForSource(file) {
  return (await ask(`source?file=${file}`)).text();
}

async function ask(what) {
  const answer = await fetch(what, { cache: "no-store", credentials: "omit", redirect: "error" });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer;
}
