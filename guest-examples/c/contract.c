// The contract guest in C: one task that does whatever its payload's first line says, the same in
// every language. The host's tests run it; it is also an example of each thing a task can do.

#include <inttypes.h>
#include <unistd.h>

#include "wasmq_task.h"

// Cuts the next word off a line of text; the rest begins behind the space.
static char *word(char **rest) {
    char *begin = *rest;
    char *space = strchr(begin, ' ');
    *rest = space ? space + 1 : begin + strlen(begin);
    if (space) *space = '\0';
    return begin;
}

static void json_string(FILE *out, task_string_t text) {
    fputc('"', out);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = text.ptr[i];
        if (byte == '"' || byte == '\\') {
            fprintf(out, "\\%c", byte);
        } else if (byte < 0x20) {
            fprintf(out, "\\u%04x", byte);
        } else {
            fputc(byte, out);
        }
    }
    fputc('"', out);
}

static wasmq_result facts(const wasmq_invocation *call) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fputs("{\"id\":", out);
    json_string(out, call->id);
    fputs(",\"task\":", out);
    json_string(out, call->task);
    fprintf(out, ",\"enqueued_at_ms\":%" PRIu64 ",\"replays\":%" PRIu32 ",\"max_attempts\":%" PRIu32,
            call->enqueued_at_ms, call->replays, call->max_attempts);
    fputs(",\"metadata\":{", out);
    for (size_t i = 0; i < call->metadata.len; i++) {
        if (i > 0) fputc(',', out);
        json_string(out, call->metadata.ptr[i].f0);
        fputc(':', out);
        json_string(out, call->metadata.ptr[i].f1);
    }
    fputs("}}", out);
    fclose(out);
    return wasmq_output(text, size);
}

// Enqueues what "TASK DELAY-MS" asks for, with the data as its payload.
static wasmq_result follow_up(const wasmq_invocation *call, char *arguments, const uint8_t *data, size_t size) {
    const char *task = word(&arguments);
    char *end = NULL;
    uint64_t delay_ms = strtoull(arguments, &end, 10);
    if (end == arguments || *end != '\0') {
        return wasmq_permanent("bad-delay", "\"%s\" is not a number of milliseconds", arguments);
    }
    const char *parent = strndup((const char *)call->id.ptr, call->id.len);
    wasmq_enqueued next = wasmq_enqueue(task, data, size, delay_ms, "parent", parent, NULL);
    if (!next.accepted) return wasmq_permanent("follow-up-refused", "%.*s", WASMQ_TEXT(next.text));
    return wasmq_output(next.text.ptr, next.text.len);
}

__attribute__((noinline)) static void inner(const char *message) {
    fprintf(stderr, "%s\n", message);
    abort();
}

__attribute__((noinline)) static void outer(const char *message) { inner(message); }

static wasmq_result wait_until_cancelled(void) {
    while (!wasmq_task_host_cancelled()) usleep(10 * 1000);
    return wasmq_retryable("cancelled", "stopped early");
}

__attribute__((noinline)) static void spin(void) {
    for (volatile uint64_t turns = 0;; turns++) {
    }
}

// Takes memory until malloc says that there is none.
static void exhaust(void) {
    const size_t chunk_bytes = 1 << 20;
    for (size_t taken = 0;; taken += chunk_bytes) {
        volatile char *chunk = malloc(chunk_bytes); // volatile, or the compiler leaves all of this out
        if (chunk == NULL) {
            fprintf(stderr, "no memory after %zu bytes\n", taken);
            abort();
        }
        for (size_t i = 0; i < chunk_bytes; i += 4096) chunk[i] = 1;
    }
}

static wasmq_result large(const char *argument) {
    char *end = NULL;
    size_t size = strtoul(argument, &end, 10);
    if (end == argument || *end != '\0') {
        return wasmq_permanent("bad-size", "\"%s\" is not a number of bytes", argument);
    }
    char *bytes = malloc(size);
    if (bytes == NULL && size > 0) return wasmq_permanent("bad-size", "no memory for %zu bytes", size);
    memset(bytes, 'x', size);
    return wasmq_output(bytes, size);
}

wasmq_result wasmq_handle(const wasmq_invocation *call, const uint8_t *payload, size_t size) {
    const uint8_t *newline = size > 0 ? memchr(payload, '\n', size) : NULL;
    size_t line_size = newline ? (size_t)(newline - payload) : size;
    char *arguments = strndup((const char *)payload, line_size);
    const char *command = word(&arguments);
    const uint8_t *data = newline ? newline + 1 : NULL;
    size_t data_size = newline ? size - line_size - 1 : 0;

    if (strcmp(command, "echo") == 0) return wasmq_output(data, data_size);
    if (strcmp(command, "facts") == 0) return facts(call);
    if (strcmp(command, "attempt") == 0) {
        char text[16];
        int text_size = snprintf(text, sizeof text, "%" PRIu32, wasmq_task_host_attempt_number());
        return wasmq_output(text, (size_t)text_size);
    }
    if (strcmp(command, "retryable") == 0) {
        const char *code = word(&arguments);
        return wasmq_retryable(code, "%s", arguments);
    }
    if (strcmp(command, "retry-after") == 0) {
        uint64_t delay_ms = strtoull(word(&arguments), NULL, 10);
        const char *code = word(&arguments);
        return wasmq_retry_after(delay_ms, code, "%s", arguments);
    }
    if (strcmp(command, "permanent") == 0) {
        const char *code = word(&arguments);
        return wasmq_with_details(wasmq_permanent(code, "%s", arguments), "details of %s", code);
    }
    if (strcmp(command, "exception") == 0) outer(arguments);
    if (strcmp(command, "log") == 0) {
        wasmq_log(WASMQ_TASK_HOST_LEVEL_INFO, "hello from the guest", "language", "c", NULL);
        wasmq_progress(1, 2, "half");
        return wasmq_output("logged", strlen("logged"));
    }
    if (strcmp(command, "follow-up") == 0) return follow_up(call, arguments, data, data_size);
    if (strcmp(command, "cancelled") == 0) return wait_until_cancelled();
    if (strcmp(command, "loop") == 0) spin();
    if (strcmp(command, "memory") == 0) exhaust();
    if (strcmp(command, "large") == 0) return large(arguments);
    return wasmq_permanent("unknown-command", "there is no command \"%s\"", command);
}
