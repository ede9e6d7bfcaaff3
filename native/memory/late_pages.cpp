#include "memory/late_pages.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace weft {

namespace {

// An entry of /proc/PID/pagemap for each page (Documentation/admin-guide/mm/pagemap.rst).
constexpr std::uint64_t kPresent = 1ULL << 63;

}  // namespace

void LatePages::begin(std::uint64_t look, Thread thread) {
    if (std::exchange(look_, look) != look) {
        kept_.clear();
    }
    thread_ = std::move(thread);
    ++stack_;
    pages_ = 0;
}

ReadResult LatePages::read(Memory& now, Address address, void* to, std::size_t size) {
    auto* bytes = static_cast<std::byte*>(to);
    while (size != 0) {
        const Address page = address & ~Address{kPage - 1};
        const Bytes* found = find(page);
        if (found == nullptr) {
            found = keep(now, page);
        }
        if (found == nullptr) {
            found = read_at_rest(now, page);
        }
        if (found == nullptr) {
            return ReadResult::kUnmapped;
        }
        const std::size_t into = address - page;
        const std::size_t count = std::min(size, kPage - into);
        std::memcpy(bytes, found->data() + into, count);
        bytes += count;
        address += count;
        size -= count;
    }
    return ReadResult::kOk;
}

const LatePages::Bytes* LatePages::find(Address page) {
    for (Window& window : kept_) {
        const auto found = std::ranges::find(window.pages, page, &Page::address);
        if (found == window.pages.end()) {
            continue;
        }
        if (!found->was_resident) {
            window.stack = stack_;
            ++pages_;
        }
        if (window.stack == stack_) {
            return found->bytes.get();
        }
    }
    return nullptr;
}

// A page that is not resident, and what is around it; null: it is, or there is none.
const LatePages::Bytes* LatePages::keep(Memory& now, Address page) {
    const Address line = page - page % (kLine * kPage);
    const Address first = line - std::min(line, kLine * kPage);
    const std::size_t own = (page - first) / kPage;
    Residency resident{};
    if (kept_.size() == kMost || !look_at(first, resident) || resident[own]) {
        return nullptr;
    }
    Window window;
    const auto copy = [&](std::size_t index) {
        Page copied{first + index * kPage, std::make_unique<Bytes>(), resident[index]};
        if (now.read(copied.address, copied.bytes->data(), kPage) == ReadResult::kOk) {
            window.pages.push_back(std::move(copied));
        }
    };
    for (std::size_t i = 0; i < kWindow; ++i) {
        if (resident[i]) {
            copy(i);
        }
    }
    const std::optional<std::uint64_t> faults = thread_.faults();
    if (!faults || !look_at(first, resident) || resident[own]) {
        return nullptr;
    }
    for (std::size_t i = own - own % kLine; i < own - own % kLine + kLine; ++i) {
        if (!resident[i]) {
            copy(i);
        }
    }
    if (thread_.faults() != faults) {
        return nullptr;
    }
    kept_.push_back(std::move(window));
    return find(page);
}

// A page of a thread that has not moved until after it was read; null: it has.
const LatePages::Bytes* LatePages::read_at_rest(Memory& now, Address page) {
    if (now.read(page, at_rest_.data(), kPage) != ReadResult::kOk || !thread_.has_not_moved()) {
        return nullptr;
    }
    ++pages_;
    return &at_rest_;
}

// Which pages are resident. False: the kernel does not tell.
bool LatePages::look_at(Address first, Residency& resident) {
    if (!pagemap_.valid()) {
        pagemap_ = Descriptor(open(("/proc/" + std::to_string(pid_) + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
    }
    std::array<std::uint64_t, kWindow> entries{};
    const auto at = static_cast<off_t>(first / kPage * sizeof entries[0]);
    if (pread(pagemap_.get(), entries.data(), sizeof entries, at) != sizeof entries) {
        return false;
    }
    std::ranges::transform(entries, resident.begin(), [](std::uint64_t entry) { return (entry & kPresent) != 0; });
    return true;
}

}  // namespace weft
