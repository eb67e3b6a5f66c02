/* A clock of day that a test can set while a process runs, to be put in front of the C library with LD_PRELOAD.
 * The file that SHIFTED_CLOCK names holds a signed number of seconds, 8 bytes in the order of the machine, which is
 * added to the time. Clocks that nobody sets are left alone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t *offset_secs;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("SHIFTED_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *shared = mmap(NULL, sizeof *offset_secs, PROT_READ, MAP_SHARED, file, 0);
    if (shared != MAP_FAILED) offset_secs = shared;
    close(file);
}

static int64_t shift(void) {
    return offset_secs ? __atomic_load_n(offset_secs, __ATOMIC_RELAXED) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    int result = (int)syscall(SYS_gettimeofday, time, zone);
    if (result == 0 && time) time->tv_sec += shift();
    return result;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
