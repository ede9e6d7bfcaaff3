/* A function that calls back. */
void enter(void (*call)(int), int depth) {
    call(depth);
    __asm__ volatile("");  /* what follows the call keeps this function on the stack */
}
