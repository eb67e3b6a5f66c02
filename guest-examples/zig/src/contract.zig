//! The contract guest in Zig: one task that does whatever its payload's first line says, the same in
//! every language. The host's tests run it; it is also an example of each thing a task can do.

const std = @import("std");
const task = @import("task.zig");

pub const panic = std.debug.FullPanic(task.panic);

pub fn main(init: std.process.Init.Minimal) !void {
    try task.run(init, handle);
}

const Command = enum {
    echo,
    facts,
    attempt,
    retryable,
    @"retry-after",
    permanent,
    exception,
    log,
    cancelled,
    loop,
    memory,
    large,
};

fn handle(call: task.Call) !task.Outcome {
    const line, const data = cut(call.payload, '\n');
    const word, const arguments = cut(line, ' ');
    const command = std.meta.stringToEnum(Command, word) orelse
        return call.permanent("unknown-command", "there is no command \"{s}\"", .{word});
    switch (command) {
        .echo => return .{ .output = data },
        .facts => return .{ .output = try facts(call) },
        .attempt => return .{ .output = try call.fact("ATTEMPT") orelse "" },
        .retryable => return .{ .retryable = problem(arguments) },
        .@"retry-after" => return .{ .retryable = problem(cut(arguments, ' ')[1]) }, // an exit code carries no delay
        .permanent => return .{ .permanent = problem(arguments) },
        .exception => outer(arguments),
        .log => std.debug.print("hello from the guest, language=zig\n", .{}),
        .cancelled => try sleep(call), // a command is not told that it was cancelled
        .loop => spin(),
        .memory => try exhaust(call.arena),
        .large => return large(call, arguments),
    }
    return .{ .output = "logged" };
}

/// The parts before and after the first separator; without one, everything and nothing.
fn cut(bytes: []const u8, separator: u8) struct { []const u8, []const u8 } {
    const at = std.mem.indexOfScalar(u8, bytes, separator) orelse return .{ bytes, "" };
    return .{ bytes[0..at], bytes[at + 1 ..] };
}

/// A problem from "CODE MESSAGE…".
fn problem(arguments: []const u8) task.Problem {
    const code, const message = cut(arguments, ' ');
    return .{ .code = code, .message = message };
}

/// The facts that the host tells, as JSON. Numbers and the metadata are JSON already.
fn facts(call: task.Call) ![]const u8 {
    var text: std.Io.Writer.Allocating = .init(call.arena);
    var json: std.json.Stringify = .{ .writer = &text.writer };
    try json.beginObject();
    inline for (.{ .{ "id", "ID" }, .{ "task", "TASK" } }) |key| {
        try json.objectField(key[0]);
        try json.write(try call.fact(key[1]));
    }
    inline for (.{
        .{ "enqueued_at_ms", "ENQUEUED_AT_MS" },
        .{ "replays", "REPLAYS" },
        .{ "max_attempts", "MAX_ATTEMPTS" },
        .{ "metadata", "METADATA" },
    }) |key| {
        if (try call.fact(key[1])) |value| {
            try json.objectField(key[0]);
            try json.print("{s}", .{value});
        }
    }
    try json.endObject();
    return text.written();
}

noinline fn outer(message: []const u8) noreturn {
    inner(message);
}

noinline fn inner(message: []const u8) noreturn {
    @panic(message);
}

fn sleep(call: task.Call) !noreturn {
    while (true) try call.io.sleep(.fromMilliseconds(10), .awake);
}

fn spin() noreturn {
    var turns: u64 = 0;
    while (true) {
        turns +%= 1;
        std.mem.doNotOptimizeAway(turns);
    }
}

/// Takes memory until there is none, which Zig reports as an error like any other.
fn exhaust(allocator: std.mem.Allocator) !noreturn {
    while (true) {
        const chunk = try allocator.alloc(u8, 1 << 20);
        @memset(chunk, 1);
        std.mem.doNotOptimizeAway(chunk);
    }
}

fn large(call: task.Call, argument: []const u8) !task.Outcome {
    const size = std.fmt.parseInt(usize, argument, 10) catch
        return call.permanent("bad-size", "\"{s}\" is not a number of bytes", .{argument});
    const bytes = try call.arena.alloc(u8, size);
    @memset(bytes, 'x');
    return .{ .output = bytes };
}
