// The contract guest in C as a plain program: payload on stdin, output on stdout, facts in the
// environment, the exit code as verdict. It does whatever the first line says, the same in every
// language; the host's tests run it.

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The exit codes that wasmq understands beside 0; sysexits.h has them elsewhere.
enum { PERMANENT = 65, RETRYABLE = 75 };

// Ends the program with a message on stderr.
__attribute__((noreturn, format(printf, 2, 3))) static void leave(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(code);
}

// All of stdin, with a zero behind it.
static char *read_payload(size_t *size) {
    size_t room = 1 << 16;
    char *payload = malloc(room + 1);
    *size = 0;
    while (payload != NULL) {
        *size += fread(payload + *size, 1, room - *size, stdin);
        if (*size < room) break;
        room *= 2;
        payload = realloc(payload, room + 1);
    }
    if (payload == NULL) leave(RETRYABLE, "no-memory: the payload does not fit");
    if (ferror(stdin)) leave(RETRYABLE, "unreadable: stdin failed after %zu bytes", *size);
    payload[*size] = '\0';
    return payload;
}

// Cuts the next word off a line of text; the rest begins behind the space.
static char *word(char **rest) {
    char *begin = *rest;
    char *space = strchr(begin, ' ');
    *rest = space ? space + 1 : begin + strlen(begin);
    if (space) *space = '\0';
    return begin;
}

static const char *fact(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

static void print_fact(const char *key, const char *name) {
    // Numbers and the metadata are JSON already.
    if (getenv(name)) printf(",\"%s\":%s", key, getenv(name));
}

static void facts(void) {
    // An id and the name of a task have no characters that JSON would escape.
    printf("{\"id\":\"%s\",\"task\":\"%s\"", fact("WASMQ_ID"), fact("WASMQ_TASK"));
    print_fact("enqueued_at_ms", "WASMQ_ENQUEUED_AT_MS");
    print_fact("replays", "WASMQ_REPLAYS");
    print_fact("max_attempts", "WASMQ_MAX_ATTEMPTS");
    print_fact("metadata", "WASMQ_METADATA");
    printf("}");
}

__attribute__((noinline)) static void inner(const char *message) {
    fprintf(stderr, "%s\n", message);
    abort();
}

__attribute__((noinline)) static void outer(const char *message) { inner(message); }

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

static void large(const char *argument) {
    char *end = NULL;
    size_t size = strtoul(argument, &end, 10);
    if (end == argument || *end != '\0') leave(PERMANENT, "bad-size: \"%s\" is not a number of bytes", argument);
    while (size-- > 0) putchar('x');
}

static void fail(int code, char *arguments) {
    const char *problem = word(&arguments);
    leave(code, "%s: %s", problem, arguments);
}

static void run(const char *command, char *arguments, const char *data, size_t data_size) {
    if (strcmp(command, "echo") == 0) {
        fwrite(data, 1, data_size, stdout);
    } else if (strcmp(command, "facts") == 0) {
        facts();
    } else if (strcmp(command, "attempt") == 0) {
        printf("%s", fact("WASMQ_ATTEMPT"));
    } else if (strcmp(command, "retryable") == 0) {
        fail(RETRYABLE, arguments);
    } else if (strcmp(command, "retry-after") == 0) {
        word(&arguments); // an exit code carries no delay
        fail(RETRYABLE, arguments);
    } else if (strcmp(command, "permanent") == 0) {
        fail(PERMANENT, arguments);
    } else if (strcmp(command, "exception") == 0) {
        outer(arguments);
    } else if (strcmp(command, "log") == 0) {
        fprintf(stderr, "hello from the guest, language=c\n");
        printf("logged");
    } else if (strcmp(command, "cancelled") == 0) {
        for (;;) usleep(10 * 1000); // a command is not told that it was cancelled
    } else if (strcmp(command, "loop") == 0) {
        spin();
    } else if (strcmp(command, "memory") == 0) {
        exhaust();
    } else if (strcmp(command, "large") == 0) {
        large(arguments);
    } else {
        leave(PERMANENT, "unknown-command: there is no command \"%s\"", command);
    }
}

int main(void) {
    size_t size = 0;
    char *payload = read_payload(&size);
    char *end = payload + size;
    char *newline = memchr(payload, '\n', size);
    const char *data = newline ? newline + 1 : end;
    if (newline) *newline = '\0';
    char *arguments = payload;
    const char *command = word(&arguments);
    run(command, arguments, data, (size_t)(end - data));
    if (fflush(stdout) != 0) leave(RETRYABLE, "unwritable: stdout failed");
    return 0;
}
