// The runtime of one process: its interpreters, their thread states, and who holds the GIL.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/memory.h"
#include "python/layout.h"
#include "python/loss.h"

namespace weft {

struct Interpreter {
    Address address = 0;
    std::int64_t id = 0;  // 0 is the main one; where the version keeps none, its place in the list
    Address threads_head = 0;
    Address gil = 0;  // 0: there is none, or it is not known
};

struct ThreadState {
    Address address = 0;
    Address interpreter = 0;
    std::int64_t interpreter_id = 0;
    Address pthread = 0;          // pthread_self of its thread
    std::uint64_t native_id = 0;  // tid in the target's pid namespace; 0: this version keeps none
};

struct Threads {
    std::vector<Interpreter> interpreters;
    std::vector<ThreadState> states;
};

class Runtime {
   public:
    Runtime(const Layout& layout, const RuntimeAddresses& addresses);

    const Layout& layout() const { return layout_; }
    const RuntimeAddresses& addresses() const { return addresses_; }

    // All interpreters and thread states. What was listed before a loss is kept.
    Loss list(Memory& memory, Threads& threads) const;

    // Whether a thread state or an interpreter has come since `threads` was listed: both lists grow at their heads.
    // (One that came and went again unseen does not matter.)
    bool has_grown(Memory& memory, const Threads& threads) const;

    // The thread state that holds the GIL of `interpreter`; 0: nobody does, or it cannot be told.
    Address gil_holder(Memory& memory, const Interpreter& interpreter) const;

    std::uint32_t thread_read_size() const { return thread_read_size_; }

   private:
    Loss list_threads(Memory& memory, const Interpreter& interpreter, Threads& threads) const;

    Layout layout_;
    RuntimeAddresses addresses_;
    std::uint32_t interp_read_size_;
    std::uint32_t thread_read_size_;
};

}  // namespace weft
