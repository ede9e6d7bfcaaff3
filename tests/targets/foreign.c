// A thread that is not Python's own, and calls back again and again.
#include <pthread.h>

static void* again(void* callback) {
    for (;;) {
        ((void (*)(void))callback)();
    }
    return 0;
}

int start(void (*callback)(void)) {
    pthread_t thread;
    return pthread_create(&thread, 0, again, (void*)callback);
}
