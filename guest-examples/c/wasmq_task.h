// What a typed task in C needs beside the generated bindings. A task defines
//
//     wasmq_result wasmq_handle(const wasmq_invocation *call, const uint8_t *payload, size_t size);
//
// and returns what one of the functions below makes. Include this header in that file alone, and
// copy it, with the folder bindings, into a project of your own.
//
// Nothing needs to be freed: the instance lives for one attempt. The functions copy what they are
// given, so local buffers and parts of the payload are fine.

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

// --- endings ---------------------------------------------------------------------------------------

// Success, with these bytes as output.
__attribute__((unused)) static wasmq_result wasmq_output(const void *bytes, size_t size) {
    wasmq_result result = {.is_err = false};
    if (size == 0) return result;
    // The bindings free it, so it has to come from malloc.
    result.val.ok.ptr = malloc(size);
    if (result.val.ok.ptr == NULL) {
        fprintf(stderr, "no memory for %zu bytes of output\n", size);
        abort();
    }
    memcpy(result.val.ok.ptr, bytes, size);
    result.val.ok.len = size;
    return result;
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

// A string whose bytes may come from a payload: a string that is not UTF-8 would be a trap.
static task_string_t wasmq_string(char *text, size_t size) {
    uint8_t *bytes = (uint8_t *)text;
    for (size_t at = 0; at < size;) {
        size_t length = wasmq_utf8_sequence(bytes + at, size - at);
        if (length == 0) bytes[at] = '?';
        at += length == 0 ? 1 : length;
    }
    return (task_string_t){.ptr = bytes, .len = size};
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

static wasmq_task_types_problem_t wasmq_problem(const char *code, const char *format, va_list arguments) {
    wasmq_task_types_problem_t problem = {.message = wasmq_format_list(format, arguments)};
    task_string_dup(&problem.code, code);
    problem.code = wasmq_string((char *)problem.code.ptr, problem.code.len);
    return problem;
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

// Writes a log record. Behind the message come keys and values in turn, and a NULL, all in UTF-8:
//
//     wasmq_log(WASMQ_TASK_HOST_LEVEL_INFO, "read the header", "width", "640", NULL);
__attribute__((unused, sentinel)) static void wasmq_log(wasmq_task_host_level_t level, const char *message, ...) {
    enum { MOST_FIELDS = 16 };
    task_tuple2_string_string_t fields[MOST_FIELDS];
    task_list_tuple2_string_string_t list = {.ptr = fields, .len = 0};
    va_list arguments;
    va_start(arguments, message);
    while (list.len < MOST_FIELDS) {
        const char *key = va_arg(arguments, const char *);
        if (key == NULL) break;
        task_string_set(&fields[list.len].f0, key);
        task_string_set(&fields[list.len].f1, va_arg(arguments, const char *));
        list.len++;
    }
    va_end(arguments);
    task_string_t text;
    task_string_set(&text, message);
    wasmq_task_host_log(level, &text, &list);
}

// Says how far the attempt has come, with a word on what is going on.
__attribute__((unused)) static void wasmq_progress(uint64_t done, uint64_t total, const char *note) {
    task_string_t text;
    task_string_set(&text, note);
    wasmq_task_host_progress(done, total, &text);
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
