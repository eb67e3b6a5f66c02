//! A task: a tar archive in, plain or gzipped, a manifest with the size and the SHA-256 of every
//! file out, as JSON.

const std = @import("std");
const task = @import("task.zig");
const Io = std.Io;
const Sha256 = std.crypto.hash.sha2.Sha256;

pub const panic = std.debug.FullPanic(task.panic);

pub fn main(init: std.process.Init.Minimal) !void {
    try task.run(init, handle);
}

const gzip_magic = "\x1f\x8b";

fn handle(call: task.Call) !task.Outcome {
    if (call.payload.len == 0) return call.permanent("empty", "the payload is empty; send a tar archive", .{});
    var packed_bytes: Io.Reader = .fixed(call.payload);
    if (!std.mem.startsWith(u8, call.payload, gzip_magic)) return manifest(call, &packed_bytes);

    var window: [std.compress.flate.max_window_len]u8 = undefined;
    var unpacked: std.compress.flate.Decompress = .init(&packed_bytes, .gzip, &window);
    const outcome = try manifest(call, &unpacked.reader);
    // The checksum of a gzip file is at its end, behind what tar reads.
    _ = unpacked.reader.discardRemaining() catch {};
    if (unpacked.err) |err| {
        return call.permanent("bad-gzip", "the archive cannot be unpacked: {t}", .{err});
    }
    return outcome;
}

fn manifest(call: task.Call, archive: *Io.Reader) !task.Outcome {
    var name: [std.fs.max_path_bytes]u8 = undefined;
    var link: [std.fs.max_path_bytes]u8 = undefined;
    var entries: std.tar.Iterator = .init(archive, .{ .file_name_buffer = &name, .link_name_buffer = &link });
    var text: Io.Writer.Allocating = .init(call.arena);
    var seen: Seen = .{};
    list(&entries, &text.writer, &seen) catch |err| switch (err) {
        error.BadName => return call.permanent(
            "bad-name",
            "the name of the entry after {d} files is not UTF-8: {f}",
            .{ seen.files, std.ascii.hexEscape(seen.name, .lower) },
        ),
        error.EndOfStream, error.UnexpectedEndOfStream => return call.permanent(
            "cut-off",
            "the archive ends in the middle of an entry, after {d} whole files",
            .{seen.files},
        ),
        error.TarHeader, error.TarHeaderChksum => return call.permanent(
            "bad-archive",
            "there is no header of a tar archive where one should be, after {d} files ({t})",
            .{ seen.files, err },
        ),
        error.WriteFailed => return error.OutOfMemory, // a writer into memory fails for no other reason
        else => return call.permanent(
            "bad-archive",
            "the entry after {d} files cannot be read: {t}",
            .{ seen.files, err },
        ),
    };
    return .{ .output = text.written() };
}

/// How far the archive has been read: the whole files, and the name of the last entry.
const Seen = struct { files: usize = 0, name: []const u8 = "" };

fn list(entries: *std.tar.Iterator, text: *Io.Writer, seen: *Seen) !void {
    var json: std.json.Stringify = .{ .writer = text, .options = .{ .whitespace = .indent_2 } };
    var bytes: u64 = 0;
    try json.beginObject();
    try json.objectField("entries");
    try json.beginArray();
    while (try entries.next()) |entry| {
        seen.name = entry.name;
        if (entry.kind != .file) continue;
        // JSON has no other texts; what is none would be written as an array of numbers.
        if (!std.unicode.utf8ValidateSlice(entry.name)) return error.BadName;
        try json.write(.{ .name = entry.name, .bytes = entry.size, .sha256 = try digest(entries, entry) });
        seen.files += 1;
        bytes += entry.size;
    }
    try json.endArray();
    try json.objectField("files");
    try json.write(seen.files);
    try json.objectField("bytes");
    try json.write(bytes);
    try json.endObject();
    try text.writeByte('\n');
}

fn digest(entries: *std.tar.Iterator, entry: std.tar.Iterator.File) ![Sha256.digest_length * 2]u8 {
    var buffer: [4096]u8 = undefined;
    var sink: Io.Writer.Discarding = .init(&.{});
    var hashed = sink.writer.hashed(Sha256.init(.{}), &buffer);
    try entries.streamRemaining(entry, &hashed.writer);
    try hashed.writer.flush();
    return std.fmt.bytesToHex(hashed.hasher.finalResult(), .lower);
}
