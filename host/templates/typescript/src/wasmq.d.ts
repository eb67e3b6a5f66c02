// The package in ../wit as TypeScript: what a task exports, and what its host offers.

declare module "wasmq:task/types@0.1.0" {
  export type Payload = Uint8Array;

  /** The facts of an invocation. They are the same in every attempt. */
  export interface Invocation {
    /** Never changes: the idempotency key towards other systems. */
    id: string;
    task: string;
    enqueuedAtMs: number;
    replays: number;
    maxAttempts: number;
    metadata: [key: string, value: string][];
  }

  /** What went wrong, in the task's own words. */
  export interface Problem {
    /** Short, stable, machine-readable. It groups failures. */
    code: string;
    /** A sentence for the person who has to repair it. */
    message: string;
    details: string | null;
  }

  export interface DelayedProblem {
    problem: Problem;
    delayMs: number;
  }

  /** What a task throws when it fails. Whatever else it throws is a trap. */
  export type Failure =
    | { tag: "retryable"; val: Problem }
    | { tag: "retry-after"; val: DelayedProblem }
    | { tag: "permanent"; val: Problem };
}

declare module "wasmq:task/handler@0.1.0" {
  import type { Invocation, Payload } from "wasmq:task/types@0.1.0";

  /** Runs the task once on one payload, in a fresh instance. Throws a `Failure`. */
  export type Handle = (invocation: Invocation, payload: Payload) => Payload;
}

declare module "wasmq:task/host@0.1.0" {
  import type { Payload } from "wasmq:task/types@0.1.0";

  export type Level = "trace" | "debug" | "info" | "warn" | "error";

  /** A follow-up invocation that a task asks for. */
  export interface FollowUp {
    task: string;
    payload: Payload;
    delayMs: number;
    metadata: [key: string, value: string][];
  }

  /** The number of this attempt, from 1. */
  export function attemptNumber(): number;
  export function log(level: Level, message: string, fields: [key: string, value: string][]): void;
  /** Says how far the attempt has come. */
  export function progress(done: number, total: number, note: string): void;
  /** Whether the task should return early with a retryable failure. */
  export function cancelled(): boolean;
  /** Enqueues a follow-up and returns its id. Throws a sentence. */
  export function enqueue(followUp: FollowUp): string;
}
