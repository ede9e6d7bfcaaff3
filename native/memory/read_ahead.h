// Reading ahead: what one look at a thread has read, the next look fetches in a single call.
//
// A stopped thread cannot change its memory, so bytes fetched early are as good as bytes fetched late; where the guess
// was wrong (a frame has gone, another has come), the byte is read when it is asked for, as if there were no guess.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "memory/process.h"

namespace weft {

// What to fetch for one thread.
using ReadPlan = std::vector<Span>;

class ReadAhead final : public Memory {
   public:
    // Begins a look: fetches the plan through `memory`, which must outlive the look. `stack`: what is known to be wanted besides.
    void begin(ProcessMemory& memory, const ReadPlan& plan, const Span& stack = {});

    // `stack`, until the next look; empty: it was not to be had.
    std::span<const std::byte> stack() const { return {bytes_.data() + stack_.offset, stack_.span.size}; }

    // Ends it: `plan` becomes what the look has used, for the next time.
    void end(ReadPlan& plan);

    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override;

    std::uint64_t calls() const { return calls_; }  // system calls so far

   private:
    struct Piece {
        Span span;
        std::size_t offset;  // in bytes_
        bool used;
    };
    // Null: the piece does not hold all of it.
    const std::byte* find_in(const Piece& piece, Address address, std::size_t size) const;

    static constexpr std::size_t kPageBytes = 4096;
    struct Page {
        Address begin = 0;
        std::uint64_t look = 0;  // in which it was read
        std::array<std::byte, kPageBytes> bytes;
    };

    const std::byte* find(Address address, std::size_t size);
    ReadResult read_page(Address begin, const Page*& page);

    ProcessMemory* memory_ = nullptr;
    ReadPlan wanted_;
    std::vector<Piece> pieces_;  // what was fetched
    Piece stack_{};
    std::vector<std::byte> bytes_;  // of all pieces and of the stack, one behind the other
    std::vector<Span> missed_;      // what was asked for and not fetched
    std::size_t next_ = 0;  // where the search begins: walks repeat, so the piece behind the last hit is the likely one
    // Pages read for what was missed: a first or a very deep look reads many small things that lie side by side.
    std::vector<Page> pages_;
    std::uint64_t look_ = 0;
    std::uint64_t calls_ = 0;
};

}  // namespace weft
