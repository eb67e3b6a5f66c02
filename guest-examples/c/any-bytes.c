// A guest for the host's tests: it says the bytes of its payload, whatever they are, in each way in which a
// task can say something, and logs more fields than anybody should.

#include "wasmq_task.h"

wasmq_result wasmq_handle(const wasmq_invocation *call, const uint8_t *payload, size_t size) {
    (void)call;
    const char *bytes = strndup((const char *)payload, size);
    wasmq_log(WASMQ_TASK_HOST_LEVEL_INFO, bytes, bytes, bytes, NULL);
    wasmq_log(WASMQ_TASK_HOST_LEVEL_INFO, "twenty", "1", "", "2", "", "3", "", "4", "", "5", "", "6", "", "7", "", "8", "",
              "9", "", "10", "", "11", "", "12", "", "13", "", "14", "", "15", "", "16", "", "17", "", "18", "", "19", "",
              "last", "of-all", NULL);
    wasmq_log(WASMQ_TASK_HOST_LEVEL_INFO, "no value for", "key", NULL);
    wasmq_progress(1, 2, bytes);
    wasmq_enqueued next = wasmq_enqueue(bytes, payload, size, 0, bytes, bytes, NULL);
    return wasmq_with_details(wasmq_permanent(bytes, "%s: %.*s", bytes, WASMQ_TEXT(next.text)), "%s", bytes);
}
