// The contract guest in JavaScript: one small behaviour for each command word.
//
// The host's tests run it in every language. A payload's first line is a word with its arguments;
// everything behind the line is data.

import * as wasmq from "./wasmq-task.js";
import { permanent, retryable, retryAfter } from "./wasmq-task.js";

const NEWLINE = 10;

const commands = {
    echo: ({ data }) => data,
    facts: ({ invocation }) => JSON.stringify(snakeCase(invocation)),
    attempt: () => String(wasmq.attemptNumber()),
    retryable({ words: [code, ...message] }) {
        throw retryable(code, message.join(" "));
    },
    "retry-after"({ words: [delayMs, code, ...message] }) {
        throw retryAfter(Number(delayMs), code, message.join(" "));
    },
    permanent({ words: [code, ...message] }) {
        throw permanent(code, message.join(" "), { details: `details of ${code}` });
    },
    exception: ({ words }) => outer(words.join(" ")),
    log() {
        wasmq.log("info", "hello from the guest", { language: "javascript" });
        wasmq.progress(1, 2, "half");
        return "logged";
    },
    "follow-up"({ invocation, words: [task, delayMs], data }) {
        try {
            return wasmq.enqueue(task, data, { delayMs: Number(delayMs), metadata: { parent: invocation.id } });
        } catch (refusal) {
            throw permanent("follow-up-refused", String(refusal));
        }
    },
    cancelled() {
        while (!wasmq.cancelled()) wasmq.sleep(10);
        throw retryable("cancelled", "stopped early");
    },
    loop() {
        for (;;);
    },
    memory() {
        for (const eaten = []; ; ) eaten.push(new Uint8Array(1 << 20).fill(1));
    },
    large: ({ words: [size] }) => new Uint8Array(Number(size)).fill("x".charCodeAt(0)),
};

export const handler = wasmq.task((invocation, payload) => {
    const newline = payload.indexOf(NEWLINE);
    const end = newline < 0 ? payload.length : newline;
    const [word, ...words] = wasmq.text(payload.subarray(0, end)).split(" ");
    if (!Object.hasOwn(commands, word)) {
        throw permanent("unknown-command", `there is no command '${word}'`);
    }
    return commands[word]({ invocation, words, data: payload.slice(end + 1) });
});

function outer(message) {
    inner(message);
}

function inner(message) {
    throw new Error(message);
}

function snakeCase(record) {
    const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return Object.fromEntries(Object.entries(record).map(([name, value]) => [snake(name), value]));
}
