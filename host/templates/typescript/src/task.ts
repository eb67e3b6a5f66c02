// The task: lines such as `coffee,350` in, how many there are and their total as JSON out.

import type { Handle } from "wasmq:task/handler@0.1.0";
import type { Failure } from "wasmq:task/types@0.1.0";
import { decode, encode } from "./utf8.ts";

const handle: Handle = (invocation, payload) => {
  const text = decode(payload);
  if (text === null) throw permanent("not-text", "the payload is not UTF-8");
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  let total = 0;
  for (const [at, line] of lines.entries()) {
    const [, amount = ""] = line.split(",", 2);
    if (!/^\d+$/.test(amount)) {
      throw permanent("bad-amount", `line ${at + 1}: "${amount}" is not an amount`);
    }
    total += Number(amount);
  }
  return encode(JSON.stringify({ items: lines.length, total }) + "\n");
};

// A failure that another attempt cannot help. The tag "retryable" asks for another attempt.
function permanent(code: string, message: string): Failure {
  return { tag: "permanent", val: { code, message, details: null } };
}

// Whatever else is thrown is a fault of the task: a trap, with the stack on stderr.
export const handler = { handle };
