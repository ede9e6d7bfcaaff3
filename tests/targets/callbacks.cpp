// Calls back from where C++ and signals make native stacks hard to cross. Each function that is called from outside notes
// its return address in `returned_to`, so that a test knows one frame's pc from the compiler itself.
#include <signal.h>
#include <unistd.h>
#include <unwind.h>
#include <stdexcept>

using Callback = void (*)();

extern "C" {
void* returned_to[4096];
int noted = 0;
}

namespace {

void note(void* address) { returned_to[noted++ % 4096] = address; }

template <typename T>
[[gnu::noinline]] void raise_error(T value) {
    if (noted != 0) {
        throw std::runtime_error(std::to_string(value));
    }
}

class CallsAtEnd {
   public:
    explicit CallsAtEnd(Callback call) : call_(call) {}
    ~CallsAtEnd() { call_(); }

   private:
    Callback call_;
};

_Unwind_Reason_Code visit(_Unwind_Context* /*context*/, void* call) {
    reinterpret_cast<Callback>(call)();
    return _URC_END_OF_STACK;
}

void on_signal(int /*number*/) {
    note(__builtin_return_address(0));
    char byte = 0;
    while (read(0, &byte, 1) < 0) {
    }
}

char signal_stack[256 << 10];

}  // namespace

extern "C" {

void in_catch(Callback call) {
    note(__builtin_return_address(0));
    try {
        raise_error(1);
    } catch (const std::runtime_error&) {
        call();
    }
}

void in_destructor(Callback call) {
    note(__builtin_return_address(0));
    try {
        const CallsAtEnd at_end(call);
        raise_error(2.5);
    } catch (const std::runtime_error&) {
        ++noted;
        --noted;
    }
}

// libgcc's own frames are on the stack: it has saved all registers, and walks the very stack that is looked at.
void in_unwinder(Callback call) {
    note(__builtin_return_address(0));
    _Unwind_Backtrace(visit, reinterpret_cast<void*>(call));
}

// From now on SIGUSR1 is handled by a read of stdin, on a stack of its own if that is wanted.
int handle(int on_own_stack) {
    stack_t own = {};
    own.ss_sp = signal_stack;
    own.ss_size = sizeof signal_stack;
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = on_own_stack ? SA_ONSTACK : 0;
    return (on_own_stack ? sigaltstack(&own, nullptr) : 0) + sigaction(SIGUSR1, &action, nullptr);
}

}  // extern "C"
