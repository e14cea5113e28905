// What the client programs of this folder share: arguments, the pinned modules, and the talk with their test (../program.py).
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [modules, port_text, protocol_text] = process.argv.slice(2);
export const port = Number(port_text);
export const protocol = Number(protocol_text);
export const pinned = createRequire(`${modules}/`);

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export async function askFor(what, answer) {
  process.stdout.write(`${what}\n`);
  assert.equal((await answers.next()).value, answer);
}

export async function until(condition) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 1));
}

// 1 MiB in which no two neighbouring blocks are equal.
export const large = Buffer.from(Array.from({ length: 1 << 20 }, (_, i) => (i * 31 + (i >> 8)) & 255));

export function done() {
  process.stdout.write("ok\n", () => process.exit(0));
}
