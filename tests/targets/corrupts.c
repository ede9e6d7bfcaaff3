// Words of a program's own memory that are junk for a time.
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { kMost = 64 };

static uint64_t state;

static uint64_t draw(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 11;
}

static uint64_t cpu_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t junk(uint64_t was, uint64_t address) {
    switch (draw() % 5) {
        case 0: return draw() << 11 | draw();
        case 1: return was + draw() % 8192 - 4096;
        case 2: return address;
        case 3: return 0;
        default: return 8;
    }
}

// Each 50 us one of them, sometimes all are as they were.
void corrupt(volatile uint64_t* words, int count, int ms, uint64_t seed) {
    uint64_t were[kMost];
    count = count < kMost ? count : kMost;
    state = seed;
    memcpy(were, (const void*)words, (size_t)count * 8);
    const uint64_t end = cpu_us() + (uint64_t)ms * 1000;
    for (uint64_t now = cpu_us(); now < end;) {
        const uint64_t at = draw() % (uint64_t)count;
        words[at] = junk(were[at], (uint64_t)&words[at]);
        if (draw() % 8 == 0) {
            memcpy((void*)words, were, (size_t)count * 8);
        }
        for (const uint64_t next = now + 50; now < next; now = cpu_us()) {
        }
    }
    memcpy((void*)words, were, (size_t)count * 8);
}

// One of them.
void replace(volatile uint64_t* word, uint64_t value, int ms) {
    const uint64_t was = *word;
    *word = value;
    for (const uint64_t end = cpu_us() + (uint64_t)ms * 1000; cpu_us() < end;) {
    }
    *word = was;
}
