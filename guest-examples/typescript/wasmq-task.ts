// What a wasmq task written in TypeScript needs beside its own logic. Copy it next to your task,
// together with wit.d.ts.
//
//     import { permanent, task, text } from "./wasmq-task.ts";
//
//     export const handler = task((invocation, payload) => {
//         if (payload.length === 0) throw permanent("empty", "the payload is empty");
//         return text(payload).toUpperCase();
//     });
//
// Anything else that is thrown is a trap: its message and its stack go to stderr, and wasmq keeps them.

import clock from "wasi:clocks/monotonic-clock@0.2.12";
import stderr from "wasi:cli/stderr@0.2.12";
import type { Handler } from "wasmq:task/handler@0.1.0";
import host, { type Level } from "wasmq:task/host@0.1.0";
import type * as wit from "wasmq:task/types@0.1.0";

/** The facts of an invocation. They are the same in every attempt. */
export type Invocation = Omit<wit.Invocation, "metadata"> & { metadata: Record<string, string> };

export type Output = Uint8Array | string;

/** Makes the handler that wasmq calls out of a function from invocation and payload to bytes or text. */
export function task(handle: (invocation: Invocation, payload: Uint8Array) => Output): Handler {
    return {
        handle(invocation, payload) {
            try {
                const facts = { ...invocation, metadata: Object.fromEntries(invocation.metadata) };
                return output(handle(facts, payload));
            } catch (thrown) {
                if (thrown instanceof Failure) throw thrown.toWit();
                write(`Uncaught ${describe(thrown)}`);
                throw thrown instanceof Error ? thrown : new Error(String(thrown));
            }
        },
    };
}

// Types are gone when the task runs, and with `any` they are easily wrong.
function output(value: Output): Uint8Array {
    if (value instanceof Uint8Array) return value;
    if (typeof value === "string") return bytes(value);
    throw new TypeError(`the handler returned ${typeof value}, not a Uint8Array or a string`);
}

// --- failures ----------------------------------------------------------------------------------

export interface More {
    /** Anything that helps to repair it. */
    details?: string;
    /** The error behind it; its message and stack become the details. */
    cause?: unknown;
}

/** A failure in the task's own words: a short stable code and a sentence for a person. */
export class Failure extends Error {
    override name = "Failure";
    readonly #toWit: (problem: wit.Problem) => wit.Failure;
    readonly #code: string;
    readonly #details: string | undefined;

    constructor(code: string, message: string, more: More, toWit: (problem: wit.Problem) => wit.Failure) {
        super(message, { cause: more.cause });
        this.#code = code;
        this.#details = more.details;
        this.#toWit = toWit;
    }

    toWit(): wit.Failure {
        const details = this.#details ?? (this.cause === undefined ? null : describe(this.cause));
        return this.#toWit({ code: this.#code, message: this.message, details });
    }
}

/** Worth another attempt, after the backoff of the task's settings. */
export function retryable(code: string, message: string, more: More = {}): Failure {
    return new Failure(code, message, more, (val) => ({ tag: "retryable", val }));
}

/** Worth another attempt, not earlier than in `delayMs` milliseconds. */
export function retryAfter(delayMs: number, code: string, message: string, more: More = {}): Failure {
    return new Failure(code, message, more, (problem) => ({ tag: "retry-after", val: { problem, delayMs } }));
}

/** Another attempt cannot help: the invocation becomes a dead task at once. */
export function permanent(code: string, message: string, more: More = {}): Failure {
    return new Failure(code, message, more, (val) => ({ tag: "permanent", val }));
}

// --- the host ----------------------------------------------------------------------------------

/** The number of this attempt, counted from 1. */
export const attemptNumber = (): number => host.attemptNumber();

/** Whether the task should stop early. A long one asks now and then, and throws `retryable`. */
export const cancelled = (): boolean => host.cancelled();

/** Writes a log record. */
export function log(level: Level, message: string, fields: Record<string, unknown> = {}): void {
    host.log(level, message, Object.entries(fields).map(([key, value]) => [key, String(value)]));
}

/** Says how far the attempt has come: `done` of `total`, and a word on what is going on. */
export function progress(done: number, total: number, note = ""): void {
    host.progress(done, total, note);
}

/** Enqueues a follow-up invocation and returns its id. It counts once this attempt completes. */
export function enqueue(task: string, payload: Output, delayMs = 0, metadata: Record<string, string> = {}): string {
    return host.enqueue({ task, payload: output(payload), delayMs, metadata: Object.entries(metadata) });
}

/** Does nothing for so many milliseconds. */
export function sleep(ms: number): void {
    const over = clock.subscribeDuration(Math.round(ms * 1e6));
    over.block();
    over[Symbol.dispose]();
}

// --- what QuickJS does not have: text encoding and a console -----------------------------------

/** Text as UTF-8; half a surrogate pair becomes U+FFFD. */
export function bytes(text: string): Uint8Array {
    // encodeURIComponent writes UTF-8 as %XX, and unescape makes a character out of each of these. The
    // way over base64 is ten times as fast as a loop.
    return Uint8Array.fromBase64(btoa(unescape(encodeURIComponent(text.toWellFormed()))));
}

/** UTF-8 as text. Anything else is a permanent failure `not-text`. */
export function text(bytes: Uint8Array): string {
    try {
        return decodeURIComponent(escape(atob(bytes.toBase64())));
    } catch (cause) {
        throw permanent("not-text", "the payload is not UTF-8", { cause });
    }
}

const print = (...values: unknown[]): void => write(`${values.map(show).join(" ")}\n`);

globalThis.console ??= { debug: print, error: print, info: print, log: print, trace: print, warn: print };

function show(value: unknown): string {
    if (value instanceof Error) return describe(value).trimEnd();
    return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** An error's message, its stack, and what caused it. The stack of QuickJS lacks the message. */
function describe(thrown: unknown): string {
    if (!(thrown instanceof Error)) return `${String(thrown)}\n`;
    const cause = thrown.cause === undefined ? "" : `Caused by: ${describe(thrown.cause)}`;
    return `${thrown}\n${thrown.stack}${cause}`;
}

function write(text: string): void {
    const stream = stderr.getStderr();
    const all = bytes(text);
    // WASI takes 4096 bytes at a time.
    for (let at = 0; at < all.length; at += 4096) {
        stream.blockingWriteAndFlush(all.subarray(at, at + 4096));
    }
    stream[Symbol.dispose]();
}
