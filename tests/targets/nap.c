// A sleep that tells its own end, before the thread waits for the GIL.
#include <time.h>

__attribute__((visibility("default"))) double nap(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&time, 0);
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}
