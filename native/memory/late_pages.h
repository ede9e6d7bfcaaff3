// Pages that were not resident when the kernel walked a stack: it reads without waiting for a disk. They are read later, and hold
// what they held then: whoever touches such a page makes it resident, so one that still is not has not been touched since.
//
// The memory around it, which is resident, may have changed, but for what belongs to older frames: a thread cannot have returned to
// those without touching the frame in between. So that memory is copied first, and only then the page is shown to be untouched.
// Reading it makes it resident: that the thread has not touched it just before is told by the number of its page faults.
// (A page that was touched, and evicted again before we look, some ms after the sample, would not be told from one that was not.)
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "memory/descriptor.h"
#include "memory/memory.h"

namespace weft {

class LatePages {
   public:
    // The thread of a stack.
    struct Thread {
        std::function<bool()> has_not_moved;  // since the stack was taken, so that all of its memory is as it was
        std::function<std::optional<std::uint64_t>()> faults;
    };

    explicit LatePages(pid_t pid) : pid_(pid) {}

    // Another stack. `look`: at the ring; what was kept in an earlier one may have changed before the stack was taken.
    void begin(std::uint64_t look, Thread thread);

    // Memory as it was when the stack was taken; kUnmapped where that is not certain.
    [[nodiscard]] ReadResult read(Memory& now, Address address, void* to, std::size_t size);

    // Pages of this stack that were read late.
    std::uint64_t pages() const { return pages_; }

   private:
    static constexpr std::size_t kPage = 4096;
    static constexpr std::size_t kWindow = 64;  // pages that are looked at together
    // To read one page of a file makes those around it resident, in so many that lie in line (the kernel's fault_around_bytes).
    static constexpr std::size_t kLine = 16;
    static constexpr std::size_t kMost = 256;  // windows that are kept at a time

    using Bytes = std::array<std::byte, kPage>;
    struct Page {
        Address address = 0;
        std::unique_ptr<Bytes> bytes;
        bool was_resident = false;
    };
    struct Window {
        std::vector<Page> pages;
        std::uint64_t stack = 0;  // that one of its pages, which was not resident, was seen in
    };
    using Residency = std::array<bool, kWindow>;

    const Bytes* find(Address page);
    const Bytes* keep(Memory& now, Address page);
    const Bytes* read_at_rest(Memory& now, Address page);
    bool look_at(Address first, Residency& resident);

    pid_t pid_;
    Descriptor pagemap_;
    std::vector<Window> kept_;
    Bytes at_rest_{};
    Thread thread_;
    std::uint64_t look_ = 0;
    std::uint64_t stack_ = 0;
    std::uint64_t pages_ = 0;
};

}  // namespace weft
