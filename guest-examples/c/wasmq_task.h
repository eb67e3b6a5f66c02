// What a typed task in C needs beside the generated bindings. A task defines
//
//     wasmq_result wasmq_handle(const wasmq_invocation *call, const uint8_t *payload, size_t size);
//
// and returns what one of the functions below makes. Include this header in that file alone, and
// copy it, with the folder bindings, into a project of your own.
//
// Nothing needs to be freed: the instance lives for one attempt. The functions copy what they are
// given, so local buffers and parts of the payload are fine. Texts may hold any bytes: what is not UTF-8
// reaches the host as '?'.

#ifndef WASMQ_TASK_H
#define WASMQ_TASK_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task.h"

typedef exports_wasmq_task_handler_invocation_t wasmq_invocation;
typedef exports_wasmq_task_handler_result_payload_failure_t wasmq_result;

// Defined by the task. It is called exactly once.
wasmq_result wasmq_handle(const wasmq_invocation *call, const uint8_t *payload, size_t size);

// The two arguments that printf's %.*s takes, for a string of the bindings: it has no zero at its end.
#define WASMQ_TEXT(string) (int)(string).len, (const char *)(string).ptr

#define WASMQ_FORMAT(position) __attribute__((unused, format(printf, position, (position) + 1)))

// --- texts -----------------------------------------------------------------------------------------

// Memory from malloc. Without any it aborts, and the verdict is memory-limit.
static void *wasmq_allocate(size_t size) {
    void *memory = malloc(size);
    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", size);
        abort();
    }
    return memory;
}

// How many bytes the UTF-8 sequence at the beginning has, 0 if there is none.
static size_t wasmq_utf8_sequence(const uint8_t *text, size_t size) {
    uint8_t first = text[0];
    size_t length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (length > size) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80) return 0;
    }
    bool overlong = (first == 0xE0 && text[1] < 0xA0) || (first == 0xF0 && text[1] < 0x90);
    bool surrogate = first == 0xED && text[1] > 0x9F;
    bool too_large = first == 0xF4 && text[1] > 0x8F;
    return overlong || surrogate || too_large ? 0 : length;
}

// The text with a '?' for every byte that is not UTF-8: a string with such a byte would be a trap.
static task_string_t wasmq_string(char *text, size_t size) {
    uint8_t *bytes = (uint8_t *)text;
    for (size_t at = 0; at < size;) {
        size_t length = wasmq_utf8_sequence(bytes + at, size - at);
        if (length == 0) bytes[at] = '?';
        at += length == 0 ? 1 : length;
    }
    return (task_string_t){.ptr = bytes, .len = size};
}

static task_string_t wasmq_copy(const char *text) {
    size_t size = strlen(text);
    return wasmq_string(memcpy(wasmq_allocate(size + 1), text, size), size);
}

static task_string_t wasmq_format_list(const char *format, va_list arguments) {
    char *text = NULL;
    int size = vasprintf(&text, format, arguments);
    if (size < 0) {
        fprintf(stderr, "no memory for a text of the format: %s\n", format);
        abort();
    }
    return wasmq_string(text, (size_t)size);
}

// --- endings ---------------------------------------------------------------------------------------

// Success, with these bytes as output.
__attribute__((unused)) static wasmq_result wasmq_output(const void *bytes, size_t size) {
    wasmq_result result = {.is_err = false};
    if (size == 0) return result;
    result.val.ok.ptr = wasmq_allocate(size); // the bindings free it
    memcpy(result.val.ok.ptr, bytes, size);
    result.val.ok.len = size;
    return result;
}

static wasmq_task_types_problem_t wasmq_problem(const char *code, const char *format, va_list arguments) {
    return (wasmq_task_types_problem_t){.code = wasmq_copy(code), .message = wasmq_format_list(format, arguments)};
}

// Worth another attempt. The code is short and stable, because it groups failures; the message is a
// sentence for the person who has to repair it.
WASMQ_FORMAT(2) static wasmq_result wasmq_retryable(const char *code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    wasmq_result result = {.is_err = true};
    result.val.err.tag = WASMQ_TASK_TYPES_FAILURE_RETRYABLE;
    result.val.err.val.retryable = wasmq_problem(code, format, arguments);
    va_end(arguments);
    return result;
}

// Worth another attempt, not earlier than in so many milliseconds.
WASMQ_FORMAT(3)
static wasmq_result wasmq_retry_after(uint64_t delay_ms, const char *code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    wasmq_result result = {.is_err = true};
    result.val.err.tag = WASMQ_TASK_TYPES_FAILURE_RETRY_AFTER;
    result.val.err.val.retry_after.problem = wasmq_problem(code, format, arguments);
    result.val.err.val.retry_after.delay_ms = delay_ms;
    va_end(arguments);
    return result;
}

// Another attempt cannot help: the invocation becomes a dead task at once.
WASMQ_FORMAT(2) static wasmq_result wasmq_permanent(const char *code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    wasmq_result result = {.is_err = true};
    result.val.err.tag = WASMQ_TASK_TYPES_FAILURE_PERMANENT;
    result.val.err.val.permanent = wasmq_problem(code, format, arguments);
    va_end(arguments);
    return result;
}

// The same failure with details: the offending row, a dump, text in any shape.
WASMQ_FORMAT(2) static wasmq_result wasmq_with_details(wasmq_result failure, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    // The problem is the first member of every kind of failure.
    wasmq_task_types_problem_t *problem = &failure.val.err.val.permanent;
    problem->details.is_some = true;
    problem->details.val = wasmq_format_list(format, arguments);
    va_end(arguments);
    return failure;
}

// --- what the host offers --------------------------------------------------------------------------

// Keys and values in turn, up to the first NULL. A key that has no value gets an empty one.
static task_list_tuple2_string_string_t wasmq_pairs(va_list arguments) {
    va_list counted;
    va_copy(counted, arguments);
    size_t strings = 0;
    while (va_arg(counted, const char *) != NULL) strings++;
    va_end(counted);
    task_list_tuple2_string_string_t pairs = {.ptr = NULL, .len = (strings + 1) / 2};
    if (pairs.len == 0) return pairs;
    pairs.ptr = wasmq_allocate(pairs.len * sizeof *pairs.ptr);
    for (size_t i = 0; i < pairs.len; i++) {
        pairs.ptr[i].f0 = wasmq_copy(va_arg(arguments, const char *));
        bool has_value = 2 * i + 1 < strings;
        pairs.ptr[i].f1 = wasmq_copy(has_value ? va_arg(arguments, const char *) : "");
    }
    return pairs;
}

// Writes a log record. Behind the message come keys and values in turn, and a NULL:
//
//     wasmq_log(WASMQ_TASK_HOST_LEVEL_INFO, "read the header", "width", "640", NULL);
__attribute__((unused, sentinel)) static void wasmq_log(wasmq_task_host_level_t level, const char *message, ...) {
    va_list arguments;
    va_start(arguments, message);
    task_list_tuple2_string_string_t fields = wasmq_pairs(arguments);
    va_end(arguments);
    task_string_t text = wasmq_copy(message);
    wasmq_task_host_log(level, &text, &fields);
}

// Says how far the attempt has come, with a word on what is going on.
__attribute__((unused)) static void wasmq_progress(uint64_t done, uint64_t total, const char *note) {
    task_string_t text = wasmq_copy(note);
    wasmq_task_host_progress(done, total, &text);
}

// What became of a follow-up: its id, or a sentence that says why it was refused.
typedef struct {
    bool accepted;
    task_string_t text;
} wasmq_enqueued;

// Enqueues a follow-up invocation that runs not earlier than so many milliseconds after this attempt has
// completed; if the attempt fails, it is dropped. Behind the delay come keys and values of its metadata in
// turn, and a NULL.
__attribute__((unused, sentinel)) static wasmq_enqueued wasmq_enqueue(const char *task, const void *payload, size_t size,
                                                                      uint64_t delay_ms, ...) {
    va_list arguments;
    va_start(arguments, delay_ms);
    wasmq_task_host_follow_up_t wanted = {
        .task = wasmq_copy(task),
        .payload = {.ptr = (uint8_t *)payload, .len = size},
        .delay_ms = delay_ms,
        .metadata = wasmq_pairs(arguments),
    };
    va_end(arguments);
    task_string_t id, refusal;
    bool accepted = wasmq_task_host_enqueue(&wanted, &id, &refusal);
    return (wasmq_enqueued){.accepted = accepted, .text = accepted ? id : refusal};
}

// --- the export ------------------------------------------------------------------------------------

bool exports_wasmq_task_handler_handle(exports_wasmq_task_handler_invocation_t *invocation,
                                       exports_wasmq_task_handler_payload_t *payload,
                                       exports_wasmq_task_handler_payload_t *output,
                                       exports_wasmq_task_handler_failure_t *failure) {
    wasmq_result result = wasmq_handle(invocation, payload->ptr, payload->len);
    if (result.is_err) {
        *failure = result.val.err;
    } else {
        *output = result.val.ok;
    }
    return !result.is_err;
}

#endif
