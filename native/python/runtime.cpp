#include "python/runtime.h"

#include <algorithm>
#include <array>

#include "python/cycle.h"
#include "python/fields.h"

namespace weft {

namespace {

// Far more than programs have; lists that are longer are torn or hostile.
constexpr std::size_t kMaxInterpreters = 1024;
constexpr std::size_t kMaxThreads = 1 << 16;
constexpr std::size_t kMaxStruct = 16 << 10;

}  // namespace

Runtime::Runtime(const Layout& layout, const RuntimeAddresses& addresses) : layout_(layout), addresses_(addresses) {
    const std::uint32_t p = layout.pointer_size;
    interp_read_size_ = std::max({end_of(layout.interp_next, p), end_of(layout.interp_id, 8),
                                  end_of(layout.interp_threads_head, p), end_of(layout.interp_gil, p)});
    thread_read_size_ = std::max(
        {end_of(layout.thread_next, p), end_of(layout.thread_interp, p), end_of(layout.thread_frame, p),
         end_of(layout.thread_cframe, p), end_of(layout.thread_pthread, p), end_of(layout.thread_native_id, p),
         end_of(layout.thread_holds_gil, 4), end_of(layout.thread_chunk, p), end_of(layout.thread_chunk_top, p)});
    interp_read_size_ = std::min<std::uint32_t>(interp_read_size_, kMaxStruct);
    thread_read_size_ = std::min<std::uint32_t>(thread_read_size_, kMaxStruct);
}

Loss Runtime::list(Memory& memory, Threads& threads) const {
    threads.interpreters.clear();
    threads.states.clear();
    Address address = 0;
    Loss loss = read_pointer(memory, layout_, addresses_.interpreters_head, address);
    std::array<std::byte, kMaxStruct> bytes;
    CycleSearch cycle;
    while (loss == Loss::kNone && address != 0) {
        if (cycle.closes(address) || threads.interpreters.size() == kMaxInterpreters) {
            loss = Loss::kCycle;
            break;
        }
        loss = to_loss(memory.read(address, bytes.data(), interp_read_size_));
        if (loss != Loss::kNone) {
            break;
        }
        const Fields fields(bytes.data(), interp_read_size_, layout_.pointer_size);
        Interpreter interpreter;
        interpreter.address = address;
        interpreter.id = present(layout_.interp_id) ? fields.get<std::int64_t>(layout_.interp_id)
                                                    : static_cast<std::int64_t>(threads.interpreters.size());
        interpreter.threads_head = fields.pointer(layout_.interp_threads_head);
        interpreter.gil = present(layout_.interp_gil) ? fields.pointer(layout_.interp_gil) : addresses_.gil;
        threads.interpreters.push_back(interpreter);
        loss = list_threads(memory, interpreter, threads);
        address = fields.pointer(layout_.interp_next);
    }
    if (!present(layout_.interp_id)) {
        // The newest comes first: count ids from the main interpreter, which is the last.
        const auto last = static_cast<std::int64_t>(threads.interpreters.size()) - 1;
        for (Interpreter& interpreter : threads.interpreters) {
            interpreter.id = last - interpreter.id;
        }
        for (ThreadState& state : threads.states) {
            state.interpreter_id = last - state.interpreter_id;
        }
    }
    return loss;
}

Loss Runtime::list_threads(Memory& memory, const Interpreter& interpreter, Threads& threads) const {
    std::array<std::byte, kMaxStruct> bytes;
    CycleSearch cycle;
    for (Address address = interpreter.threads_head; address != 0;) {
        if (cycle.closes(address) || threads.states.size() == kMaxThreads) {
            return Loss::kCycle;
        }
        const Loss loss = to_loss(memory.read(address, bytes.data(), thread_read_size_));
        if (loss != Loss::kNone) {
            return loss;
        }
        const Fields fields(bytes.data(), thread_read_size_, layout_.pointer_size);
        if (fields.pointer(layout_.thread_interp) != interpreter.address) {
            return Loss::kNoThreadState;  // the list changed under the read, or this is no thread state
        }
        ThreadState state;
        state.address = address;
        state.interpreter = interpreter.address;
        state.interpreter_id = interpreter.id;
        state.pthread = fields.pointer(layout_.thread_pthread);
        state.native_id = present(layout_.thread_native_id) ? fields.pointer(layout_.thread_native_id) : 0;
        threads.states.push_back(state);
        address = fields.pointer(layout_.thread_next);
    }
    return Loss::kNone;
}

bool Runtime::has_grown(Memory& memory, const Threads& threads) const {
    Address head = 0;
    if (read_pointer(memory, layout_, addresses_.interpreters_head, head) != Loss::kNone) {
        return true;
    }
    if (threads.interpreters.empty() || threads.interpreters.front().address != head) {
        return true;
    }
    return std::ranges::any_of(threads.interpreters, [&](const Interpreter& interpreter) {
        Address first = 0;
        const Loss loss = read_pointer(memory, layout_, interpreter.address + layout_.interp_threads_head, first);
        return loss != Loss::kNone || first != interpreter.threads_head;
    });
}

Address Runtime::gil_holder(Memory& memory, const Interpreter& interpreter) const {
    Address holder = 0;
    if (addresses_.current_thread != 0) {
        return read_pointer(memory, layout_, addresses_.current_thread, holder) == Loss::kNone ? holder : 0;
    }
    if (interpreter.gil == 0 || !present(layout_.gil_last_holder) || !present(layout_.gil_locked)) {
        return 0;
    }
    std::int32_t locked = 0;
    if (memory.read(interpreter.gil + layout_.gil_locked, &locked, sizeof locked) != ReadResult::kOk || locked <= 0) {
        return 0;
    }
    const Loss loss = read_pointer(memory, layout_, interpreter.gil + layout_.gil_last_holder, holder);
    return loss == Loss::kNone ? holder : 0;
}

}  // namespace weft
