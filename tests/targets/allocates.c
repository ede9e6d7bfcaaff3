// Asks libc for known amounts of memory, in every way, and tells how much that was. As a program of its own it asks for nothing
// else: it waits for a line, and in the end until its input ends.
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default"), noinline))

// What the compiler does not see to be used, it would leave out.
static void end(void* got) {
    asm volatile("" : : "r"(got) : "memory");
    free(got);
}

// Each gives how many bytes it asks for in one round.
EXPORT long get_many(long rounds) {
    for (long i = 0; i < rounds; i++) {
        end(malloc(1000));
    }
    return 1000;
}

EXPORT long get_clean(long rounds) {
    for (long i = 0; i < rounds; i++) {
        end(calloc(100, 64));
    }
    return 6400;
}

// realloc asks malloc for what is new, and for what has to move.
EXPORT long get_more(long rounds) {
    for (long i = 0; i < rounds; i++) {
        void* got = realloc(0, 3000);
        asm volatile("" : "+r"(got) : : "memory");
        end(realloc(got, 70000));
    }
    return 73000;
}

EXPORT long get_aligned(long rounds) {
    for (long i = 0; i < rounds; i++) {
        void* got = 0;
        if (posix_memalign(&got, 64, 20000) == 0) {
            end(got);
        }
        end(aligned_alloc(16, 4096));
        end(memalign(4096, 8192));
    }
    return 32288;
}

EXPORT long get_large(long rounds) {
    for (long i = 0; i < rounds; i++) {
        end(malloc(5000000));
    }
    return 5000000;
}

// None of it: it never was asked for, or what cannot be.
EXPORT void get_nothing(void) {
    end(malloc(0));
    volatile size_t most = (size_t)1 << 62;
    end(malloc(most));
    end(calloc(most, 16));
}

#ifdef PROGRAM
int main(void) {
    char line[1];
    // Up to glibc 2.33, the first call of each kind calls itself again, for once (malloc/hooks.c).
    get_many(1), get_more(1), get_aligned(1);
    if (write(1, "{}\n", 3) != 3 || read(0, line, 1) != 1) {
        return 1;
    }
    get_many(3000);
    get_clean(2000);
    get_more(500);
    get_aligned(400);
    get_large(20);
    get_nothing();
    while (read(0, line, 1) > 0) {
    }
    return 0;
}
#endif
