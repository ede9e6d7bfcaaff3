// Loaded before a program, so that it begins only when it is told to: until then its libraries are mapped, and nothing has run.
#include <signal.h>
#include <stddef.h>

__attribute__((constructor)) static void waits(void) {
    sigset_t told;
    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    sigprocmask(SIG_BLOCK, &told, NULL);
    int signal;
    sigwait(&told, &signal);
}
