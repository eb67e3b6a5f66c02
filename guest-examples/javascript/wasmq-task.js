// What a wasmq task written in JavaScript needs beside its own logic. Copy it next to your task.
//
//     import { permanent, task, text } from "./wasmq-task.js";
//
//     export const handler = task((invocation, payload) => {
//         if (payload.length === 0) throw permanent("empty", "the payload is empty");
//         return text(payload).toUpperCase();
//     });
//
// Anything else that is thrown is a trap: its message and its stack go to stderr, and wasmq keeps them.

import clock from "wasi:clocks/monotonic-clock@0.2.12";
import stderr from "wasi:cli/stderr@0.2.12";
import host from "wasmq:task/host@0.1.0";

/** Makes the handler that wasmq calls out of a function from invocation and payload to bytes or text. */
export function task(handle) {
    return {
        handle(invocation, payload) {
            try {
                const facts = { ...invocation, metadata: Object.fromEntries(invocation.metadata) };
                return binary("the handler's output", handle(facts, payload));
            } catch (thrown) {
                if (thrown instanceof Failure) throw thrown.toWit();
                write(`Uncaught ${describe(thrown)}`);
                throw trap(thrown);
            }
        },
    };
}

function binary(what, value) {
    if (value instanceof Uint8Array) return value;
    if (typeof value === "string") return bytes(value);
    const kind = value === null ? "null" : (value?.constructor?.name ?? typeof value);
    throw new TypeError(`${what} is ${kind}, not a Uint8Array or a string`);
}

/** An error that traps. One with a payload, as the host throws it, would be taken for a failure. */
function trap(thrown) {
    if (!(thrown instanceof Error)) return new Error(show(thrown));
    return "payload" in thrown ? new Error(thrown.message) : thrown;
}

/** A number of units, from 0. */
function amount(what, value) {
    const units = typeof value === "bigint" ? Number(value) : value;
    if (typeof units === "number" && units >= 0 && units <= Number.MAX_SAFE_INTEGER) return units;
    throw new TypeError(`${what} is ${show(value)}, not a number from 0`);
}

/** The same as the host takes it: whole. */
const units = (what, value) => Math.round(amount(what, value));

// --- failures ----------------------------------------------------------------------------------

/** A failure in the task's own words: a short stable code and a sentence for a person. */
export class Failure extends Error {
    constructor(kind, code, message, { details, cause, delayMs } = {}) {
        super(message, { cause });
        Object.assign(this, { name: "Failure", kind, code, details, delayMs });
    }

    toWit() {
        const details = this.details ?? this.cause;
        const problem = {
            code: String(this.code),
            message: this.message,
            details: details === undefined ? null : show(details),
        };
        const val = this.kind === "retry-after" ? { problem, delayMs: this.delayMs } : problem;
        return { tag: this.kind, val };
    }
}

/** Worth another attempt, after the backoff of the task's settings. */
export const retryable = (code, message, more) => new Failure("retryable", code, message, more);

/** Worth another attempt, not earlier than in `delayMs` milliseconds. */
export const retryAfter = (delayMs, code, message, more) =>
    new Failure("retry-after", code, message, { ...more, delayMs: units("the delay", delayMs) });

/** Another attempt cannot help. `more` may hold `details`, a text, or the `cause`, an error. */
export const permanent = (code, message, more) => new Failure("permanent", code, message, more);

// --- the host ----------------------------------------------------------------------------------

/** The number of this attempt, counted from 1. */
export const attemptNumber = () => host.attemptNumber();

/** Whether the task should stop early. A long one asks now and then, and throws `retryable`. */
export const cancelled = () => host.cancelled();

const LEVELS = ["trace", "debug", "info", "warn", "error"];

/** Writes a log record. Levels: trace, debug, info, warn, error. */
export function log(level, message, fields = {}) {
    if (!LEVELS.includes(level)) throw new TypeError(`${show(level)} is no level; there are ${LEVELS.join(", ")}`);
    host.log(level, String(message), pairs(fields));
}

/** Says how far the attempt has come: `done` of `total`, and a word on what is going on. */
export const progress = (done, total, note = "") =>
    host.progress(units("what is done", done), units("the total", total), String(note));

/**
 * Enqueues a follow-up invocation and returns its id. It counts once this attempt completes. Throws an
 * error when the host refuses it.
 */
export function enqueue(task, payload, { delayMs = 0, metadata = {} } = {}) {
    const wanted = { task: String(task), payload: binary("the payload", payload), metadata: pairs(metadata) };
    return host.enqueue({ ...wanted, delayMs: units("the delay", delayMs) });
}

const pairs = (record) => Object.entries(record).map(([key, value]) => [key, show(value)]);

/** Does nothing for so many milliseconds. */
export function sleep(ms) {
    const over = clock.subscribeDuration(Math.round(amount("the time to sleep", ms) * 1e6));
    over.block();
    over[Symbol.dispose]();
}

// --- what QuickJS does not have: text encoding and a console -----------------------------------

/** Text as UTF-8; half a surrogate pair becomes U+FFFD. */
export function bytes(text) {
    // encodeURIComponent writes UTF-8 as %XX, and unescape makes a character out of each of these. The
    // way over base64 is ten times as fast as a loop.
    return Uint8Array.fromBase64(btoa(unescape(encodeURIComponent(text.toWellFormed()))));
}

/** UTF-8 as text. Anything else is a permanent failure `not-text`. */
export function text(bytes) {
    try {
        return decodeURIComponent(escape(atob(bytes.toBase64())));
    } catch (cause) {
        throw permanent("not-text", "the payload is not UTF-8", { cause });
    }
}

const print = (...values) => write(`${values.map(show).join(" ")}\n`);

globalThis.console ??= { debug: print, error: print, info: print, log: print, trace: print, warn: print };

/** Any value as text, also one that JSON cannot hold. */
function show(value) {
    if (value instanceof Error) return describe(value).trimEnd();
    if (typeof value !== "object") return String(value);
    try {
        return JSON.stringify(value, (_, part) => (typeof part === "bigint" ? String(part) : part));
    } catch {
        return Object.prototype.toString.call(value);
    }
}

/** An error's message, its stack, and what caused it. The stack of QuickJS lacks the message. */
function describe(thrown, seen = []) {
    if (!(thrown instanceof Error)) return `${show(thrown)}\n`;
    const known = [...seen, thrown];
    const cause = thrown.cause;
    const rest = cause === undefined || known.includes(cause) ? "" : `Caused by: ${describe(cause, known)}`;
    return `${thrown}\n${thrown.stack}${rest}`;
}

function write(text) {
    const stream = stderr.getStderr();
    const all = bytes(text);
    // WASI takes 4096 bytes at a time.
    for (let at = 0; at < all.length; at += 4096) {
        stream.blockingWriteAndFlush(all.subarray(at, at + 4096));
    }
    stream[Symbol.dispose]();
}
