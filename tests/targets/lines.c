/* Calls back from known places: what each line is, its comment says. test_lines.py looks for the comments. */
typedef void (*callback)(void);

volatile int done;

static inline __attribute__((always_inline)) void inlined_twice(callback call) {
    call(); /* at inlined_twice */
    ++done;
}

static inline __attribute__((always_inline)) void inlined(callback call) {
    ++done;
    inlined_twice(call); /* at inlined */
}

static __attribute__((noinline)) int outlined(callback call) {
    inlined(call); /* at outlined */
    return ++done;
}

static __attribute__((noinline)) int jumped_to(callback call, int count) {
    int result = outlined(call) + count; /* at jumped_to */
    return result + done;
}

__attribute__((noinline)) int jumps(callback call) {
    return jumped_to(call, 7); /* a tail call: no frame */
}

int entry(callback call) {
    int result = jumps(call); /* at entry */
    return result + ++done;
}
