// Interning: each distinct frame and each distinct stack gets a number, and is told to the capture once.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "python/frames.h"

namespace weft {

// A hash map from 64-bit keys to 32-bit ids: open addressing, no removal. Key 0 is not allowed.
class IdMap {
   public:
    IdMap() { clear(); }

    // The id of `key`; 0 if it is new, and then it becomes `new_id`.
    std::uint32_t find_or_insert(std::uint64_t key, std::uint32_t new_id);
    std::size_t size() const { return size_; }
    void clear();

   private:
    struct Slot {
        std::uint64_t key = 0;
        std::uint32_t id = 0;
    };

    std::size_t home(std::uint64_t key) const {
        return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ULL) >> 32) & (slots_.size() - 1);
    }
    void grow();

    std::vector<Slot> slots_;
    std::size_t size_ = 0;
};

struct FrameRow {
    std::uint32_t id = 0;
    PythonFrame frame;
};

struct StackRow {
    std::uint32_t id = 0;
    std::uint32_t parent = 0;  // 0: the root
    std::uint32_t frame = 0;
};

class StackTable {
   public:
    // The stack made by pushing `frames` (innermost first) onto the stack `parent`.
    std::uint32_t intern(std::span<const PythonFrame> frames, std::uint32_t parent);

    // Rows since the last call.
    std::vector<FrameRow> take_frames() { return std::exchange(new_frames_, {}); }
    std::vector<StackRow> take_stacks() { return std::exchange(new_stacks_, {}); }

   private:
    std::uint32_t intern_frame(const PythonFrame& frame);

    IdMap frames_;
    IdMap stacks_;
    std::uint32_t next_frame_ = 1;
    std::uint32_t next_stack_ = 1;
    std::vector<FrameRow> new_frames_;
    std::vector<StackRow> new_stacks_;
};

}  // namespace weft
