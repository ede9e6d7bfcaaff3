// The ring in which the kernel's part of collector bpf tells its samples (include/uapi/linux/bpf.h, BPF_MAP_TYPE_RINGBUF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace weft {

class KernelRing {
   public:
    // `descriptor` of the map, of `size` bytes, a power of two; it is not ours. Throws std::system_error.
    KernelRing(int descriptor, std::size_t size);
    ~KernelRing();
    KernelRing(const KernelRing&) = delete;
    KernelRing& operator=(const KernelRing&) = delete;

    // How far the kernel has come by now.
    std::uint64_t end() const;

    // Calls `on_record` for each record since the last call, oldest first, up to an end().
    void take(std::uint64_t end, const std::function<void(std::span<const std::byte>)>& on_record);

   private:
    std::byte* ring() const;
    void fetch_next(std::uint64_t at, std::uint64_t length) const;
    std::span<const std::byte> record_at(std::uint64_t at, std::uint64_t length);

    std::size_t size_;
    void* consumer_ = nullptr;  // one page: how far we have come
    void* producer_ = nullptr;  // one page: how far the kernel has come; and the ring
    // A record that goes over the ring's end. The ring can be mapped twice, one behind the other, against that; but then it weighs
    // twice among what is resident.
    std::vector<std::byte> joined_;
};

}  // namespace weft
