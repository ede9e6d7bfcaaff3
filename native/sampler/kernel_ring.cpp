#include "sampler/kernel_ring.h"

#include <linux/bpf.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "memory/fetch_ahead.h"
#include "sampler/perf_event.h"

namespace weft {

namespace {

constexpr std::uint64_t kHeader = 8;            // bytes before each record: its length, and where its pages begin
constexpr std::uint64_t kMostAhead = 16 << 10;  // of the next record, which is taken to be as long as this one

std::uint64_t length_of(std::uint32_t header) { return header & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT); }

}  // namespace

KernelRing::KernelRing(int descriptor, std::size_t size) : size_(size) {
    const std::size_t page = page_size();
    consumer_ = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    producer_ = mmap(nullptr, page + size, PROT_READ, MAP_SHARED, descriptor, static_cast<off_t>(page));
    if (consumer_ == MAP_FAILED || producer_ == MAP_FAILED) {
        throw std::system_error(errno, std::generic_category(), "mmap of a BPF ring");
    }
}

KernelRing::~KernelRing() {
    munmap(consumer_, page_size());
    munmap(producer_, page_size() + size_);
}

std::uint64_t KernelRing::end() const {
    return std::atomic_ref(*static_cast<std::uint64_t*>(producer_)).load(std::memory_order_acquire);
}

void KernelRing::take(std::uint64_t end, const std::function<void(std::span<const std::byte>)>& on_record) {
    const std::atomic_ref consumed(*static_cast<std::uint64_t*>(consumer_));
    std::uint64_t at = consumed.load(std::memory_order_relaxed);
    while (at < end) {
        auto* word = reinterpret_cast<std::uint32_t*>(ring() + (at & (size_ - 1)));  // in one piece: all are aligned
        const std::uint32_t header = std::atomic_ref(*word).load(std::memory_order_acquire);
        if ((header & BPF_RINGBUF_BUSY_BIT) != 0) {
            return;  // it is being written
        }
        const std::uint64_t length = length_of(header);
        fetch_next(at + kHeader + length, std::min(length, kMostAhead));
        if ((header & BPF_RINGBUF_DISCARD_BIT) == 0) {
            on_record(record_at(at + kHeader, length));
        }
        at += (kHeader + length + 7) & ~std::uint64_t{7};
        consumed.store(at, std::memory_order_release);
    }
}

void KernelRing::fetch_next(std::uint64_t at, std::uint64_t length) const {
    const std::uint64_t begin = at & (size_ - 1);
    fetch_ahead({ring() + begin, std::min(length, size_ - begin)});
}

std::byte* KernelRing::ring() const { return static_cast<std::byte*>(producer_) + page_size(); }

std::span<const std::byte> KernelRing::record_at(std::uint64_t at, std::uint64_t length) {
    const std::uint64_t begin = at & (size_ - 1);
    if (begin + length <= size_) {
        return {ring() + begin, length};
    }
    joined_.assign(ring() + begin, ring() + size_);
    joined_.insert(joined_.end(), ring(), ring() + std::min(length - joined_.size(), begin));
    return joined_;
}

}  // namespace weft
