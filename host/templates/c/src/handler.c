// The task: lines such as `coffee,350` in, how many there are and their total as JSON out.
// What stands before the comma may be any bytes, also such that are not UTF-8.

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "task.h"

// A failure that another attempt cannot help. WASMQ_TASK_TYPES_FAILURE_RETRYABLE asks for another one.
static bool permanent(exports_wasmq_task_handler_failure_t *failure, const char *code, const char *message) {
    failure->tag = WASMQ_TASK_TYPES_FAILURE_PERMANENT;
    task_string_dup(&failure->val.permanent.code, code);
    task_string_dup(&failure->val.permanent.message, message);
    failure->val.permanent.details.is_some = false;
    return false;
}

// Reads one to nine digits between two places, and nothing else.
static bool read_amount(const uint8_t *from, const uint8_t *end, uint64_t *amount) {
    if (from == end || end - from > 9) return false;
    for (*amount = 0; from < end; from++) {
        if (*from < '0' || *from > '9') return false;
        *amount = *amount * 10 + (*from - '0');
    }
    return true;
}

// Called once in a fresh instance, which is thrown away afterwards: nothing that is given has to be freed.
// What is returned must come from malloc, as it does from strdup and task_string_dup.
bool exports_wasmq_task_handler_handle(exports_wasmq_task_handler_invocation_t *invocation,
                                       exports_wasmq_task_handler_payload_t *payload,
                                       exports_wasmq_task_handler_payload_t *output,
                                       exports_wasmq_task_handler_failure_t *failure) {
    (void)invocation;
    char text[96];
    uint64_t items = 0, total = 0, amount;
    const uint8_t *at = payload->ptr, *end = payload->ptr + payload->len;
    while (at < end) {
        const uint8_t *line_end = memchr(at, '\n', end - at);
        if (line_end == NULL) line_end = end;
        const uint8_t *comma = memchr(at, ',', line_end - at);
        items++;
        bool crlf = line_end < end && line_end > at && line_end[-1] == '\r';
        if (comma == NULL || !read_amount(comma + 1, line_end - crlf, &amount)) {
            snprintf(text, sizeof text, "line %" PRIu64 ": no amount of 1 to 9 digits", items);
            return permanent(failure, "bad-amount", text);
        }
        total += amount;
        at = line_end + 1;
    }
    snprintf(text, sizeof text, "{\"items\":%" PRIu64 ",\"total\":%" PRIu64 "}\n", items, total);
    output->ptr = (uint8_t *)strdup(text);
    output->len = strlen(text);
    return true;
}
