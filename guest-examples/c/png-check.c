// A task: a PNG file in, what it holds as JSON out. It checks every chunk's checksum, so that an
// upload that was cut off or damaged on its way is found before anybody works with it.

#include <ctype.h>
#include <inttypes.h>

#include "wasmq_task.h"

static const uint8_t SIGNATURE[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
enum { CHUNK_OVERHEAD = 12, TYPE_SIZE = 4, HEADER_SIZE = 13 };

// A chunk, as the section "Chunk layout" of the PNG specification has it.
typedef struct {
    size_t offset; // in the file
    uint32_t size; // of the data
    const uint8_t *type;
    const uint8_t *data;
} chunk;

static uint32_t read_u32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

// CRC-32 as PNG, gzip and Ethernet have it.
static uint32_t crc32(const uint8_t *bytes, size_t size) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

static bool is(const chunk *part, const char *type) { return memcmp(part->type, type, TYPE_SIZE) == 0; }

// Reads the chunk at an offset. False with a failure if there is no whole and sound one.
static bool read_chunk(const uint8_t *file, size_t size, size_t offset, chunk *part, wasmq_result *failure) {
    size_t left = size - offset;
    if (left < CHUNK_OVERHEAD) {
        *failure = wasmq_permanent("cut-off", "the file ends at byte %zu, where a chunk should be", size);
        return false;
    }
    *part = (chunk){offset, read_u32(file + offset), file + offset + 4, file + offset + 8};
    for (int i = 0; i < TYPE_SIZE; i++) {
        if (isalpha(part->type[i])) continue;
        *failure = wasmq_permanent("bad-chunk", "there is no chunk type in the four bytes at %zu", offset + 4);
        return false;
    }
    if (part->size > left - CHUNK_OVERHEAD) {
        *failure = wasmq_permanent("cut-off", "the chunk %.4s at byte %zu has %" PRIu32 " bytes, the file has only %zu of them",
                                   part->type, offset, part->size, left - CHUNK_OVERHEAD);
        return false;
    }
    uint32_t found = crc32(part->type, TYPE_SIZE + part->size);
    uint32_t expected = read_u32(part->data + part->size);
    if (found != expected) {
        *failure = wasmq_with_details(
            wasmq_permanent("bad-checksum", "the chunk %.4s at byte %zu is damaged; send the file again", part->type, offset),
            "the CRC-32 of its %" PRIu32 " bytes is %08" PRIx32 ", the file says %08" PRIx32, part->size, found, expected);
        return false;
    }
    return true;
}

static const char *color_name(uint8_t type) {
    switch (type) {
    case 0: return "gray";
    case 2: return "rgb";
    case 3: return "palette";
    case 4: return "gray with alpha";
    case 6: return "rgb with alpha";
    default: return NULL;
    }
}

// Writes what the header says. False with a failure if it makes no sense.
static bool write_header(FILE *out, const chunk *part, wasmq_result *failure) {
    if (!is(part, "IHDR") || part->size != HEADER_SIZE) {
        *failure = wasmq_permanent("bad-header", "the first chunk is %.4s of %" PRIu32 " bytes, not IHDR of %d", part->type,
                                   part->size, HEADER_SIZE);
        return false;
    }
    uint32_t width = read_u32(part->data), height = read_u32(part->data + 4);
    const char *color = color_name(part->data[9]);
    if (width == 0 || height == 0 || color == NULL) {
        *failure = wasmq_permanent("bad-header", "a picture of %" PRIu32 " by %" PRIu32 " and colour type %d cannot be", width,
                                   height, part->data[9]);
        return false;
    }
    fprintf(out,
            "{\n  \"width\": %" PRIu32 ",\n  \"height\": %" PRIu32 ",\n  \"bit_depth\": %d,\n  \"color\": \"%s\",\n"
            "  \"interlaced\": %s,\n  \"chunks\": [",
            width, height, part->data[8], color, part->data[12] ? "true" : "false");
    return true;
}

wasmq_result wasmq_handle(const wasmq_invocation *call, const uint8_t *payload, size_t size) {
    (void)call;
    if (size < sizeof SIGNATURE || memcmp(payload, SIGNATURE, sizeof SIGNATURE) != 0) {
        return wasmq_permanent("not-a-png", "the %zu bytes do not begin as a PNG file does", size);
    }
    char *text = NULL;
    size_t text_size = 0;
    FILE *out = open_memstream(&text, &text_size);
    wasmq_result failure;
    chunk part = {0};
    uint64_t picture_bytes = 0;
    size_t offset = sizeof SIGNATURE;
    do {
        if (!read_chunk(payload, size, offset, &part, &failure)) return failure;
        bool first = offset == sizeof SIGNATURE;
        if (first && !write_header(out, &part, &failure)) return failure;
        fprintf(out, "%s\n    {\"type\": \"%.4s\", \"bytes\": %" PRIu32 "}", first ? "" : ",", part.type, part.size);
        if (is(&part, "IDAT")) picture_bytes += part.size;
        offset += CHUNK_OVERHEAD + part.size;
    } while (!is(&part, "IEND"));
    if (picture_bytes == 0) return wasmq_permanent("no-picture", "the file has no chunk IDAT with data");
    fprintf(out, "\n  ],\n  \"picture_bytes\": %" PRIu64 ",\n  \"bytes_behind_the_end\": %zu\n}\n", picture_bytes, size - offset);
    fclose(out);
    return wasmq_output(text, text_size);
}
