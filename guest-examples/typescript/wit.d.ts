// The imports of the world `script`, as componentize-qjs gives them to a task: names in camel case,
// `u64` as a number, `list<u8>` as a Uint8Array, `option` as null, errors thrown.

declare module "wasmq:task/host@0.1.0" {
    export type Level = "trace" | "debug" | "info" | "warn" | "error";

    export interface FollowUp {
        task: string;
        payload: Uint8Array;
        delayMs: number;
        metadata: [string, string][];
    }

    const host: {
        attemptNumber(): number;
        log(level: Level, message: string, fields: [string, string][]): void;
        progress(done: number, total: number, note: string): void;
        cancelled(): boolean;
        enqueue(followUp: FollowUp): string;
    };
    export default host;
}

declare module "wasmq:task/types@0.1.0" {
    export interface Invocation {
        id: string;
        task: string;
        enqueuedAtMs: number;
        replays: number;
        maxAttempts: number;
        metadata: [string, string][];
    }

    export interface Problem {
        code: string;
        message: string;
        details: string | null;
    }

    export type Failure =
        | { tag: "retryable"; val: Problem }
        | { tag: "retry-after"; val: { problem: Problem; delayMs: number } }
        | { tag: "permanent"; val: Problem };
}

declare module "wasmq:task/handler@0.1.0" {
    import type { Invocation } from "wasmq:task/types@0.1.0";

    /** What a task exports under the name `handler`. It fails by throwing a `Failure`. */
    export interface Handler {
        handle(invocation: Invocation, payload: Uint8Array): Uint8Array;
    }
}

declare module "wasi:clocks/monotonic-clock@0.2.12" {
    interface Pollable extends Disposable {
        block(): void;
    }

    const clock: { subscribeDuration(nanoseconds: number): Pollable };
    export default clock;
}

declare module "wasi:cli/stderr@0.2.12" {
    interface OutputStream extends Disposable {
        blockingWriteAndFlush(contents: Uint8Array): void;
    }

    const stderr: { getStderr(): OutputStream };
    export default stderr;
}

// What QuickJS has beyond the language.
declare function atob(base64: string): string;
declare function btoa(binary: string): string;

// What wasmq-task.ts adds.
declare var console: Record<"debug" | "error" | "info" | "log" | "trace" | "warn", (...values: unknown[]) => void>;
