// Loaded before libc, so that threads begin late: the interpreter has made their thread states, and they have not taken them yet.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct start {
    void* (*routine)(void*);
    void* argument;
};

static void* begins_late(void* of) {
    const struct start start = *(struct start*)of;
    free(of);
    sleep(1000);
    return start.routine(start.argument);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*), void* argument) {
    int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = dlsym(RTLD_NEXT, "pthread_create");
    struct start* start = malloc(sizeof *start);
    *start = (struct start){routine, argument};
    return create(thread, attributes, begins_late, start);
}
