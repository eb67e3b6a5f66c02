// The contract guest in TypeScript: one small behaviour for each command word.
//
// The host's tests run it in every language. A payload's first line is a word with its arguments;
// everything behind the line is data.

import * as wasmq from "./wasmq-task.ts";
import { type Invocation, type Output, permanent, retryable, retryAfter } from "./wasmq-task.ts";

const NEWLINE = 10;

interface Request {
    invocation: Invocation;
    words: string[];
    data: Uint8Array;
}

const commands: Record<string, (request: Request) => Output> = {
    echo: ({ data }) => data,
    facts: ({ invocation }) => JSON.stringify(snakeCase(invocation)),
    attempt: () => String(wasmq.attemptNumber()),
    retryable({ words: [code = "", ...message] }) {
        throw retryable(code, message.join(" "));
    },
    "retry-after"({ words: [delayMs, code = "", ...message] }) {
        throw retryAfter(Number(delayMs), code, message.join(" "));
    },
    permanent({ words: [code = "", ...message] }) {
        throw permanent(code, message.join(" "), { details: `details of ${code}` });
    },
    exception: ({ words }) => outer(words.join(" ")),
    log() {
        wasmq.log("info", "hello from the guest", { language: "typescript" });
        wasmq.progress(1, 2, "half");
        return "logged";
    },
    "follow-up"({ invocation, words: [task = "", delayMs], data }) {
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
        for (const eaten: Uint8Array[] = []; ; ) eaten.push(new Uint8Array(1 << 20).fill(1));
    },
    large: ({ words: [size] }) => new Uint8Array(Number(size)).fill("x".charCodeAt(0)),
};

export const handler = wasmq.task((invocation, payload) => {
    const newline = payload.indexOf(NEWLINE);
    const end = newline < 0 ? payload.length : newline;
    const [word = "", ...words] = wasmq.text(payload.subarray(0, end)).split(" ");
    const command = Object.hasOwn(commands, word) ? commands[word] : undefined;
    if (command === undefined) {
        throw permanent("unknown-command", `there is no command '${word}'`);
    }
    return command({ invocation, words, data: payload.slice(end + 1) });
});

function outer(message: string): never {
    return inner(message);
}

function inner(message: string): never {
    throw new Error(message);
}

function snakeCase(record: object): object {
    const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return Object.fromEntries(Object.entries(record).map(([name, value]) => [snake(name), value]));
}
