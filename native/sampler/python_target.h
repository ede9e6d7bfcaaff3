// The Python side of one process: its runtime, its code objects, and which thread states belong to which thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/limited.h"
#include "memory/read_ahead.h"
#include "python/code.h"
#include "python/frames.h"
#include "python/runtime.h"
#include "unwind/rule.h"

namespace weft {

// What the sampler keeps of one thread for its Python stack.
struct PythonThread {
    pid_t inner_tid = 0;  // in the target's pid namespace
    Address pthread = 0;  // pthread_self; 0: not known yet
    std::vector<ThreadState> states;
    std::uint64_t joined_to = 0;    // the listing that `states` come from
    std::uint32_t empty_looks = 0;  // looks that found no thread state
    ReadPlan plan;
};

// Where a thread stands, as far as it is known.
struct ThreadPosition {
    Address pthread = 0;    // 0: it is not
    RegisterSet registers;  // in user mode
    Address stack_end = 0;  // up to here its stack is to be read, too; 0: that is not wanted

    Address stack_pointer() const { return registers.get(Register::kRsp); }  // 0: it is not known
};

// A thread at an earlier instant: its memory, the objects that it shares with others, and its frames' code objects.
struct PastThread {
    Memory& memory;
    PastMemory& objects;
    std::span<const CodeIdentity> codes;
    Address state = 0;            // its thread state in the main interpreter; 0: none was found
    bool is_alone = false;        // that was the only interpreter
    std::uint64_t ring_look = 0;  // the look at the kernel's ring that has found it; 0: it is the only one
};

class PythonTarget {
   public:
    PythonTarget(const Layout& layout, const RuntimeAddresses& addresses, std::uint32_t& next_code_id);
    PythonTarget(const PythonTarget&) = delete;
    PythonTarget& operator=(const PythonTarget&) = delete;

    // Reads the Python stack of one thread that does not run meanwhile. Returns false if the thread has no thread state:
    // it has never run Python.
    // `past`: as it was at an earlier instant; null: as it is now.
    bool look(ProcessMemory& memory, PythonThread& thread, ThreadPosition position, PythonStack& stack,
              const PastThread* past = nullptr);

    // Of a sample that is not looked at: the code objects that it tells, which later ones may not tell again.
    void learn(ProcessMemory& memory, PastMemory& objects, std::span<const CodeIdentity> codes);

    // The pthread_self of the thread that holds the GIL, for each GIL that is held.
    std::vector<Address> gil_holders(ProcessMemory& memory);

    // The pthread_self of the thread that held, at the instant of `then`, the GIL that `address` lies in; 0: it is not known.
    Address gil_holder(Memory& then, Address address) const;

    // Whether the thread is the one that `pthread` names.
    bool is(const PythonThread& thread, Address pthread) const;

    // Whether `address` lies in a GIL: a thread that waits there waits for the GIL.
    bool is_gil(Address address) const;

    // Of the last look: the stack from its stack pointer on, up to `stack_end`; empty: it was not to be had.
    std::span<const std::byte> stack() const { return read_ahead_.stack(); }

    const Runtime& runtime() const { return runtime_; }
    CodeTable& codes() { return codes_; }
    // Code objects with numbers below this have been forgotten: they get new ones when they are seen again. 0: none since
    // the last call.
    std::uint32_t take_forgotten() { return std::exchange(forgotten_below_, 0); }

   private:
    void list(Memory& memory);
    void join(PythonThread& thread) const;
    void keep_up(ProcessMemory& memory, PythonThread& thread, const PastThread* past);
    const std::vector<ThreadState>& states_then(const PythonThread& thread, const PastThread& past);
    void walk_states(Memory& memory, Memory& objects, const PythonThread& thread,
                     const std::vector<ThreadState>& states, const ThreadPosition& position, PythonStack& stack);
    bool may_be_entered_by_others() const;
    const Interpreter* interpreter_of_gil(Address address) const;

    Runtime runtime_;
    CodeTable codes_;
    FrameWalker walker_;
    ReadAhead read_ahead_;
    LimitedMemory look_;  // read_ahead_, as far as one look may go
    Threads threads_;
    Loss list_loss_ = Loss::kNone;  // why that may not be all of them
    std::uint32_t& next_code_id_;
    std::uint32_t first_code_kept_ = next_code_id_;
    std::uint32_t forgotten_below_ = 0;
    std::uint64_t listing_ = 0;                        // counts calls of list()
    std::uint64_t ring_look_ = 0;                      // in which it was last asked whether there are more
    std::unordered_map<Address, std::uint64_t> tids_;  // pthread_self -> tid, as glibc or musl keeps it
    std::vector<ThreadState> states_then_;
    std::vector<PythonStack> parts_;
};

}  // namespace weft
