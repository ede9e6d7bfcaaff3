#include "python/frames.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "python/cycle.h"
#include "python/fields.h"

namespace weft {

namespace {

constexpr std::size_t kMaxFrameBytes = 512;
constexpr std::size_t kMaxThreadBytes = 16 << 10;
constexpr std::uint64_t kMaxChunk = 64 << 20;
constexpr std::uint64_t kLargeChunk = 64 << 10;  // room for more than this is not made before it is seen to be there
// Chunks are read with the bytes above their top up to this boundary, so that a stack that has grown a little since is
// still in what was fetched ahead (a chunk is mapped as a whole).
constexpr std::uint64_t kChunkSlack = 1 << 10;
constexpr std::uint64_t kLeastChunk = 16 << 10;  // DATA_STACK_CHUNK_SIZE (Python/pystate.c): all are multiples of it

constexpr std::uint8_t kOwnerThread = 0;        // FRAME_OWNED_BY_THREAD
constexpr std::uint8_t kOwnerGenerator = 1;     // FRAME_OWNED_BY_GENERATOR
constexpr std::uint8_t kOwnerLast = 4;          // FRAME_OWNED_BY_CSTACK of 3.14, the highest there is
constexpr std::int32_t kMaxBytecode = 1 << 28;  // bytes
constexpr std::int32_t kMaxTlbc = 1 << 16;

}  // namespace

FrameWalker::FrameWalker(const Runtime& runtime) : runtime_(runtime), layout_(runtime.layout()) {}

void FrameWalker::walk(Memory& memory, Memory& objects, const ThreadState& state, CodeTable& codes,
                       PythonStack& stack) {
    stack.clear();
    Address address = 0;
    stack.loss = read_thread(memory, state, stack, address);
    const Address innermost = address;
    CycleSearch cycle;
    bool whole = true;
    begins_ = true;
    called_directly_ = false;
    firsts_.clear();
    while (stack.loss == Loss::kNone && address != 0) {
        if (cycle.closes(address)) {
            stack.loss = Loss::kCycle;
            break;
        }
        if (cycle.steps() > kMaxFrames) {
            stack.loss = Loss::kDepth;
            break;
        }
        RawFrame raw;
        stack.loss = read_frame(memory, address, raw);
        if (stack.loss != Loss::kNone) {
            break;
        }
        visit(objects, address, raw, codes, stack);
        whole = raw.ends_whole;
        called_directly_ = raw.owner < layout_.frame_owner_shim && !raw.is_entry;
        address = raw.previous;
    }
    if (stack.loss == Loss::kNone && !whole) {
        stack.loss = Loss::kBetween;
    }
    if (stack.loss == Loss::kNone && present(layout_.cframe_previous) && stack.anchor != 0 &&
        !is_newest_linked(memory, innermost, stack)) {
        stack.loss = Loss::kBetween;
    }
    if (present(layout_.frame_is_entry) && stack.anchor != 0) {
        anchor_by_cframes(memory, stack.anchor, stack);
    }
}

// What a frame is to the stack: one of Python's, or the end of a segment.
void FrameWalker::visit(Memory& objects, Address address, const RawFrame& raw, CodeTable& codes, PythonStack& stack) {
    if (raw.owner >= layout_.frame_owner_shim) {
        // 3.15's base frame lies in the thread state: no activation runs it.
        if (address - thread_ >= kMaxThreadBytes) {
            stack.anchor = stack.anchor == 0 ? address : stack.anchor;
            end_segment(address, raw, stack);
        }
    } else {
        const std::size_t before = stack.frames.size();
        stack.loss = add_frame(objects, raw, codes, stack);
        const bool pushed = stack.frames.size() > before;
        if (pushed && present(layout_.frame_owner_shim)) {
            stack.callers.push_back(raw.previous);
        }
        if (std::exchange(begins_, raw.is_entry)) {
            firsts_.push_back(address);
        }
        // A frame that has not started cannot have called another in its own activation. (It can from C: a finalizer,
        // run by the gc that its first instructions set off.) So this is the frame of an activation that is just
        // beginning, and what is above it is left over from the one before: up to 3.12 an activation links its
        // cframe before it fills it (Python/ceval.c, _PyEval_EvalFrameDefault).
        if (pushed && called_directly_ && stack.frames.back().incomplete) {
            stack.loss = Loss::kBetween;
        }
        if (raw.is_entry) {
            // The frame itself is an anchor up to 3.10; in 3.11 its cframe is.
            end_segment(present(layout_.frame_is_entry) ? 0 : address, raw, stack);
        }
    }
}

// The frames since the last segment are those of one activation, up to this one.
void FrameWalker::end_segment(Address anchor, const RawFrame& last, PythonStack& stack) {
    if (stack.segments.empty()) {
        newest_caller_ = last.previous;
    }
    stack.segments.push_back({anchor, static_cast<std::uint32_t>(stack.frames.size())});
}

// An activation links its cframe before it fills it and links its frames (3.11, 3.12), and what an earlier one has left there
// can look whole: its entry frame, linked to the frame that had called it; or the new frame itself, linked to what the frame
// before it at that address was linked to. But the cframe of the activation before names the frame that has called this one.
bool FrameWalker::is_newest_linked(Memory& memory, Address innermost, const PythonStack& stack) {
    Address outer = 0;
    Address caller = 0;
    if (read_pointer(memory, layout_, stack.anchor + layout_.cframe_previous, outer) != Loss::kNone) {
        return false;
    }
    const bool is_root = outer - thread_ < kMaxThreadBytes;  // it names no frame
    if (!is_root && read_pointer(memory, layout_, outer + layout_.cframe_frame, caller) != Loss::kNone) {
        return false;
    }
    if (innermost == caller || (!stack.segments.empty() && newest_caller_ == caller)) {
        return true;
    }
    // Greenlets leave out entry frames (read_frame), and no frame that has not started calls their switch.
    if (stack.frames.empty() || stack.frames.front().incomplete) {
        return false;
    }
    const std::size_t own = stack.segments.empty() ? stack.callers.size() : stack.segments.front().end;
    const auto callers = std::span(stack.callers).first(std::min(own, stack.callers.size()));
    return stack.segments.empty() || std::ranges::find(callers, caller) != callers.end();
}

// The cframes of 3.11 are a chain of their own. Each names the frame that its activation runs or has called from; while an
// activation ends, its cframe already names the frame of the one before. (Greenlets share the outer part of the chain.)
void FrameWalker::anchor_by_cframes(Memory& memory, Address cframe, PythonStack& stack) {
    CycleSearch cycle;
    std::size_t segment = 0;
    while (cframe - thread_ >= kMaxThreadBytes) {  // the last one, root_cframe, is the thread state's own
        Address frame = 0;
        if (cycle.closes(cframe) || cycle.steps() > kMaxFrames ||
            read_pointer(memory, layout_, cframe + layout_.cframe_frame, frame) != Loss::kNone) {
            return;
        }
        if (segment + 1 < firsts_.size() && frame == firsts_[segment + 1]) {
            ++segment;
        }
        // A loss may have cut off the end of the last one.
        if (segment < std::min(stack.segments.size(), firsts_.size()) && frame == firsts_[segment]) {
            stack.segments[segment].anchor = cframe;
        }
        if (!present(layout_.cframe_previous) ||
            read_pointer(memory, layout_, cframe + layout_.cframe_previous, cframe) != Loss::kNone) {
            return;
        }
    }
}

Loss FrameWalker::read_thread(Memory& memory, const ThreadState& state, PythonStack& stack, Address& frame) {
    std::array<std::byte, kMaxThreadBytes> bytes;
    const std::uint32_t size = runtime_.thread_read_size();
    if (const Loss loss = to_loss(memory.read(state.address, bytes.data(), size)); loss != Loss::kNone) {
        return loss;
    }
    const Fields fields(bytes.data(), size, layout_.pointer_size);
    if (fields.pointer(layout_.thread_interp) != state.interpreter ||
        fields.pointer(layout_.thread_pthread) != state.pthread) {
        return Loss::kNoThreadState;  // freed, and its memory used for something else
    }
    frame = fields.pointer(layout_.thread_frame);
    thread_ = state.address;
    if (present(layout_.thread_cframe)) {
        // While no activation runs, it is the thread state's own root_cframe.
        const Address cframe = fields.pointer(layout_.thread_cframe);
        stack.anchor = cframe - thread_ < kMaxThreadBytes ? 0 : cframe;
    }
    if (present(layout_.cframe_frame) && frame != 0) {
        if (const Loss loss = read_pointer(memory, layout_, frame + layout_.cframe_frame, frame); loss != Loss::kNone) {
            return loss;
        }
        if (frame == 0 && stack.anchor != 0) {
            return Loss::kBetween;  // an activation has linked its cframe, and not filled it
        }
    }
    chunk_.begin = chunk_.end = chunk_.mapped_end = chunk_.previous = chunk_.held = 0;
    if (present(layout_.thread_chunk) && frame != 0) {
        const Address chunk = fields.pointer(layout_.thread_chunk);
        const Address top = fields.pointer(layout_.thread_chunk_top);
        if (chunk != 0) {
            // A chunk that cannot be read ahead (of the past only frames were told) is no loss: each frame is then read where it
            // is met.
            static_cast<void>(load_chunk(memory, chunk, top));
        }
    }
    return Loss::kNone;
}

Loss FrameWalker::load_chunk(Memory& memory, Address chunk, Address top) {
    chunk_.begin = chunk_.end = chunk_.mapped_end = chunk_.previous = chunk_.held = 0;
    if (top <= chunk || top - chunk > kMaxChunk) {
        return Loss::kNotAFrame;
    }
    const std::uint64_t size = top - chunk;
    // _PyStackChunk.size is a multiple of the page size (Python/pystate.c, push_chunk), and so is the slack's.
    const std::uint64_t whole = (size + kChunkSlack - 1) / kChunkSlack * kChunkSlack;
    if (std::byte last{}; whole > kLargeChunk && memory.read(top - 1, &last, 1) != ReadResult::kOk) {
        return Loss::kUnreadable;
    }
    chunk_.bytes.resize(std::max(chunk_.bytes.size(), whole));
    if (const Loss loss = to_loss(memory.read(chunk, chunk_.bytes.data(), whole)); loss != Loss::kNone) {
        // What lies above its top has been popped all the same.
        chunk_.begin = chunk;
        chunk_.end = top;
        chunk_.mapped_end = chunk + (size + kLeastChunk - 1) / kLeastChunk * kLeastChunk;
        return loss;
    }
    chunk_.held = whole;
    const Fields fields(chunk_.bytes.data(), size, layout_.pointer_size);
    chunk_.previous = fields.pointer(layout_.chunk_previous);
    chunk_.begin = chunk;
    chunk_.end = top;
    chunk_.mapped_end = chunk + std::max<std::uint64_t>(fields.pointer(layout_.chunk_size), size);
    return Loss::kNone;
}

bool FrameWalker::enter_chunk_of(Memory& memory, Address frame) {
    // Frames go down the chunks in order, so only the next one can hold a frame that this one does not: else it lies
    // in a generator or on the C stack.
    const Address chunk = chunk_.previous;
    if (chunk == 0) {
        return false;
    }
    std::array<std::byte, 64> bytes;
    const std::uint32_t size = std::min<std::uint32_t>(layout_.chunk_data, bytes.size());
    if (memory.read(chunk, bytes.data(), size) != ReadResult::kOk) {
        return false;
    }
    const Fields fields(bytes.data(), size, layout_.pointer_size);
    const std::uint64_t top = fields.pointer(layout_.chunk_top) * layout_.pointer_size;
    const Address end = chunk + layout_.chunk_data + top;
    if (top > kMaxChunk || frame < chunk || frame >= end) {
        return false;
    }
    return load_chunk(memory, chunk, end) == Loss::kNone;
}

Loss FrameWalker::read_frame(Memory& memory, Address address, RawFrame& frame) {
    std::array<std::byte, kMaxFrameBytes> bytes;
    const std::uint32_t size = std::min<std::uint32_t>(layout_.frame_size, kMaxFrameBytes);
    const auto inside = [&] { return address >= chunk_.begin && address < chunk_.end; };
    const std::byte* from = bytes.data();
    if ((inside() || enter_chunk_of(memory, address)) && address - chunk_.begin + size <= chunk_.held) {
        from = chunk_.bytes.data() + (address - chunk_.begin);
    } else if (const Loss loss = to_loss(memory.read(address, bytes.data(), size)); loss != Loss::kNone) {
        return loss;
    }
    const Fields fields(from, size, layout_.pointer_size);
    frame.previous = fields.pointer(layout_.frame_previous);
    frame.code = fields.pointer(layout_.frame_code) & ~static_cast<Address>(layout_.frame_code_tags);
    if (layout_.instruction_kind == static_cast<std::uint32_t>(Instruction::kPointer)) {
        frame.instruction = fields.pointer(layout_.frame_instruction);
    } else {
        // f_lasti is an int: -1 is kept as such.
        frame.instruction = static_cast<Address>(fields.get<std::int32_t>(layout_.frame_instruction));
    }
    if (present(layout_.frame_owner)) {
        frame.owner = fields.get<std::uint8_t>(layout_.frame_owner);
    }
    if (present(layout_.frame_tlbc_index)) {
        frame.tlbc_index = fields.get<std::int32_t>(layout_.frame_tlbc_index);
    }
    // The outermost frame is an activation's own: its shim from 3.12 on, its first frame in 3.11. A chain that ends
    // otherwise was caught while it was being linked: a generator that yields clears `previous` before it is unlinked.
    if (present(layout_.frame_owner_shim)) {
        // Greenlets leave out the entry frames of those that are about to be switched out, since they lie on the C stack.
        frame.ends_whole = frame.owner >= layout_.frame_owner_shim || frame.owner == kOwnerThread;
    } else {
        frame.is_entry = !present(layout_.frame_is_entry) || fields.get<std::uint8_t>(layout_.frame_is_entry) != 0;
        frame.ends_whole = frame.is_entry;
    }
    if (frame.owner == kOwnerThread && address >= chunk_.end && address < chunk_.mapped_end) {
        return Loss::kBetween;  // above the top of the data stack: it has been popped
    }
    return frame.owner > kOwnerLast ? Loss::kNotAFrame : Loss::kNone;
}

Loss FrameWalker::instruction_offset(Memory& objects, const RawFrame& raw, std::int32_t& offset) {
    switch (static_cast<Instruction>(layout_.instruction_kind)) {
        case Instruction::kByteIndex: offset = static_cast<std::int32_t>(raw.instruction); break;
        case Instruction::kUnitIndex: {
            const auto index = static_cast<std::int32_t>(raw.instruction);
            offset = index < 0 ? -1 : index > kMaxBytecode / 2 ? kMaxBytecode + 1 : index * 2;
            break;
        }
        case Instruction::kPointer: {
            Address base = raw.code + layout_.code_adaptive;
            if (raw.tlbc_index > 0 && raw.tlbc_index < kMaxTlbc && present(layout_.code_tlbc)) {
                // _PyCodeArray (Include/internal/pycore_code.h, 3.14): {Py_ssize_t size; char *entries[]}.
                Address array = 0;
                Loss loss = read_pointer(objects, layout_, raw.code + layout_.code_tlbc, array);
                if (loss == Loss::kNone) {
                    const Address index = static_cast<Address>(raw.tlbc_index) + 1;
                    loss = read_pointer(objects, layout_, array + index * layout_.pointer_size, base);
                }
                if (loss != Loss::kNone) {
                    return loss;
                }
            }
            const auto distance = static_cast<std::int64_t>(raw.instruction - base);
            // prev_instr of a frame that has not started is the unit before the first.
            if (distance < -2 || distance > kMaxBytecode) {
                return Loss::kNotAFrame;
            }
            offset = static_cast<std::int32_t>(distance);
            break;
        }
    }
    return offset < -2 || offset > kMaxBytecode ? Loss::kNotAFrame : Loss::kNone;
}

Loss FrameWalker::add_frame(Memory& objects, const RawFrame& raw, CodeTable& codes, PythonStack& stack) {
    Loss loss = Loss::kNone;
    const CodeTable::Entry* entry = codes.lookup(objects, raw.code, loss);
    if (entry == nullptr) {
        return loss;
    }
    if (entry->trampoline) {
        return Loss::kNone;
    }
    PythonFrame frame;
    frame.code = entry->id;
    loss = instruction_offset(objects, raw, frame.instruction);
    if (loss != Loss::kNone) {
        return loss;
    }
    // _PyFrame_IsIncomplete (Include/internal/pycore_frame.h, 3.12).
    frame.incomplete = raw.owner != kOwnerGenerator && frame.instruction < entry->first_traceable;
    stack.frames.push_back(frame);
    return Loss::kNone;
}

}  // namespace weft
