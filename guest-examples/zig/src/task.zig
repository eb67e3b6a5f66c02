//! Makes a function a wasmq task.
//!
//! A task in Zig is a command: wasmq gives it the payload on stdin and the facts of the invocation in
//! the environment, takes the output from stdout, and reads the exit code as the verdict. This file
//! is all of that; copy it into a project of your own.

const std = @import("std");
const Io = std.Io;

/// The exit codes that wasmq understands beside 0.
const exit_permanent = 65; // EX_DATAERR: dead at once
const exit_retryable = 75; // EX_TEMPFAIL: another attempt later

/// What went wrong: a short stable code, and a sentence for the person who has to repair it.
pub const Problem = struct { code: []const u8, message: []const u8 };

/// How a task ends.
pub const Outcome = union(enum) {
    output: []const u8,
    /// Worth another attempt.
    retryable: Problem,
    /// Another attempt cannot help: the invocation becomes a dead task at once.
    permanent: Problem,
};

/// What a task is given. Nothing of it needs to be freed: the instance lives for one attempt.
pub const Call = struct {
    arena: std.mem.Allocator,
    io: Io,
    environ: std.process.Environ,
    payload: []const u8,

    /// A fact of the invocation: ID, TASK, ATTEMPT, ENQUEUED_AT_MS, REPLAYS, MAX_ATTEMPTS, or
    /// METADATA, a JSON object of strings. Null if the host does not tell it.
    ///
    /// The environment is read only when a task asks. One that never does, and reads no clock
    /// either, is deterministic: if it traps, wasmq does not try the same bytes again.
    pub fn fact(call: Call, comptime name: []const u8) !?[]const u8 {
        const environ = try call.environ.createMap(call.arena);
        return environ.get("WASMQ_" ++ name);
    }

    /// A permanent failure with a message as `std.fmt` formats it.
    pub fn permanent(call: Call, code: []const u8, comptime format: []const u8, args: anytype) !Outcome {
        return .{ .permanent = .{ .code = code, .message = try std.fmt.allocPrint(call.arena, format, args) } };
    }
};

/// Calls the function once with the payload and leaves the program with what came of it. An error
/// that the function returns is named on stderr, and asks for another attempt.
pub fn run(init: std.process.Init.Minimal, handle: fn (Call) anyerror!Outcome) !void {
    var arena: std.heap.ArenaAllocator = .init(std.heap.wasm_allocator);
    var threaded: Io.Threaded = .init_single_threaded;
    const io = threaded.io();

    var stdin = Io.File.stdin().readerStreaming(io, &.{});
    const call: Call = .{
        .arena = arena.allocator(),
        .io = io,
        .environ = init.environ,
        .payload = try stdin.interface.allocRemaining(arena.allocator(), .unlimited),
    };
    switch (try handle(call)) {
        .output => |bytes| try Io.File.stdout().writeStreamingAll(io, bytes),
        .retryable => |problem| leave(problem, exit_retryable),
        .permanent => |problem| leave(problem, exit_permanent),
    }
}

/// What a panic does: says why, and traps. wasmq adds the backtrace. A task uses it with
/// `pub const panic = std.debug.FullPanic(task.panic);` beside its main function. The one in the
/// standard library ends by complaining that it cannot print a backtrace itself.
pub fn panic(message: []const u8, _: ?usize) noreturn {
    std.debug.print("panic: {s}\n", .{message});
    @trap();
}

fn leave(problem: Problem, code: u8) noreturn {
    std.debug.print("{s}: {s}\n", .{ problem.code, problem.message });
    std.process.exit(code);
}
