// The task: lines such as `coffee,350` in, how many there are and their total as JSON out.

import { permanent, task, text } from "./wasmq-task.js";

export const handler = task((invocation, payload) => {
    const lines = text(payload).split(/\r?\n/);
    if (lines.at(-1) === "") lines.pop();
    let total = 0;
    for (const [at, line] of lines.entries()) {
        const [, amount] = /^[^,]*,(\d{1,9})$/.exec(line) ?? [];
        if (amount === undefined) throw permanent("bad-amount", `line ${at + 1}: no amount of 1 to 9 digits`);
        total += Number(amount);
    }
    return JSON.stringify({ items: lines.length, total }) + "\n";
});
