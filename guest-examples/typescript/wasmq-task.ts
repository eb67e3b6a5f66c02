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
                return binary("the handler's output", handle(facts, payload));
            } catch (thrown) {
                if (thrown instanceof Failure) throw thrown.toWit();
                write(`Uncaught ${describe(thrown)}`);
                throw trap(thrown);
            }
        },
    };
}

// Types are gone when the task runs, and with `any` they are easily wrong.
function binary(what: string, value: unknown): Uint8Array {
    if (value instanceof Uint8Array) return value;
    if (typeof value === "string") return bytes(value);
    const kind = value === null ? "null" : (value?.constructor?.name ?? typeof value);
    throw new TypeError(`${what} is ${kind}, not a Uint8Array or a string`);
}

/** An error that traps. One with a payload, as the host throws it, would be taken for a failure. */
function trap(thrown: unknown): Error {
    if (!(thrown instanceof Error)) return new Error(show(thrown));
    return "payload" in thrown ? new Error(thrown.message) : thrown;
}

/** A number of units, from 0. */
function amount(what: string, value: unknown): number {
    const units = typeof value === "bigint" ? Number(value) : value;
    if (typeof units === "number" && units >= 0 && units <= Number.MAX_SAFE_INTEGER) return units;
    throw new TypeError(`${what} is ${show(value)}, not a number from 0`);
}

/** The same as the host takes it: whole. */
const units = (what: string, value: unknown): number => Math.round(amount(what, value));

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
    readonly kind: wit.Failure["tag"];
    readonly code: string;
    readonly details: string | undefined;
    readonly delayMs: number;

    constructor(kind: wit.Failure["tag"], code: string, message: string, more: More = {}, delayMs = 0) {
        super(message, { cause: more.cause });
        this.kind = kind;
        this.code = code;
        this.details = more.details;
        this.delayMs = delayMs;
    }

    toWit(): wit.Failure {
        const details = this.details ?? this.cause;
        const problem = {
            code: String(this.code),
            message: this.message,
            details: details === undefined ? null : show(details),
        };
        if (this.kind === "retry-after") return { tag: this.kind, val: { problem, delayMs: this.delayMs } };
        return { tag: this.kind, val: problem };
    }
}

/** Worth another attempt, after the backoff of the task's settings. */
export const retryable = (code: string, message: string, more?: More) => new Failure("retryable", code, message, more);

/** Worth another attempt, not earlier than in `delayMs` milliseconds. */
export const retryAfter = (delayMs: number, code: string, message: string, more?: More) =>
    new Failure("retry-after", code, message, more, units("the delay", delayMs));

/** Another attempt cannot help: the invocation becomes a dead task at once. */
export const permanent = (code: string, message: string, more?: More) => new Failure("permanent", code, message, more);

// --- the host ----------------------------------------------------------------------------------

/** The number of this attempt, counted from 1. */
export const attemptNumber = (): number => host.attemptNumber();

/** Whether the task should stop early. A long one asks now and then, and throws `retryable`. */
export const cancelled = (): boolean => host.cancelled();

const LEVELS: readonly Level[] = ["trace", "debug", "info", "warn", "error"];

/** Writes a log record. */
export function log(level: Level, message: string, fields: Record<string, unknown> = {}): void {
    if (!LEVELS.includes(level)) throw new TypeError(`${show(level)} is no level; there are ${LEVELS.join(", ")}`);
    host.log(level, String(message), pairs(fields));
}

/** Says how far the attempt has come: `done` of `total`, and a word on what is going on. */
export function progress(done: number, total: number, note = ""): void {
    host.progress(units("what is done", done), units("the total", total), String(note));
}

export interface EnqueueOptions {
    /** The earliest first attempt, in milliseconds after this attempt has completed. */
    delayMs?: number;
    metadata?: Record<string, string>;
}

/**
 * Enqueues a follow-up invocation and returns its id. It counts once this attempt completes. Throws an
 * error when the host refuses it.
 */
export function enqueue(task: string, payload: Output, { delayMs = 0, metadata = {} }: EnqueueOptions = {}): string {
    const wanted = { task: String(task), payload: binary("the payload", payload), metadata: pairs(metadata) };
    return host.enqueue({ ...wanted, delayMs: units("the delay", delayMs) });
}

const pairs = (record: Record<string, unknown>): [string, string][] =>
    Object.entries(record).map(([key, value]) => [key, show(value)]);

/** Does nothing for so many milliseconds. */
export function sleep(ms: number): void {
    const over = clock.subscribeDuration(Math.round(amount("the time to sleep", ms) * 1e6));
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

/** Any value as text, also one that JSON cannot hold. */
function show(value: unknown): string {
    if (value instanceof Error) return describe(value).trimEnd();
    if (typeof value !== "object") return String(value);
    try {
        return JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? String(part) : part));
    } catch {
        return Object.prototype.toString.call(value);
    }
}

/** An error's message, its stack, and what caused it. The stack of QuickJS lacks the message. */
function describe(thrown: unknown, seen: unknown[] = []): string {
    if (!(thrown instanceof Error)) return `${show(thrown)}\n`;
    const known = [...seen, thrown];
    const cause = thrown.cause;
    const rest = cause === undefined || known.includes(cause) ? "" : `Caused by: ${describe(cause, known)}`;
    return `${thrown}\n${thrown.stack}${rest}`;
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
