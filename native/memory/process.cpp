#include "memory/process.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace weft {

namespace {

constexpr std::size_t kMaxSpans = 1024;  // IOV_MAX of the kernel (include/uapi/linux/uio.h, UIO_MAXIOV)

void* remote(Address address) { return reinterpret_cast<void*>(address); }  // NOLINT(performance-no-int-to-ptr)

}  // namespace

ReadResult ProcessMemory::read(Address address, void* to, std::size_t size) {
    const iovec here{to, size};
    const iovec there{remote(address), size};
    const ssize_t got = process_vm_readv(tid_, &here, 1, &there, 1, 0);
    if (got == static_cast<ssize_t>(size)) {
        return ReadResult::kOk;
    }
    if (got >= 0 || errno == EFAULT || errno == EINVAL) {
        return ReadResult::kUnmapped;
    }
    return errno == ESRCH ? ReadResult::kGone : ReadResult::kDenied;
}

std::size_t ProcessMemory::read_many(std::span<const Span> spans, void* to) {
    std::array<iovec, kMaxSpans> there;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
    const std::size_t count = std::min(spans.size(), kMaxSpans);
    std::size_t size = 0;
    for (std::size_t i = 0; i < count; ++i) {
        there[i] = {remote(spans[i].address), spans[i].size};
        size += spans[i].size;
    }
    const iovec here{to, size};
    const ssize_t got = process_vm_readv(tid_, &here, 1, there.data(), count, 0);
    return got < 0 ? 0 : static_cast<std::size_t>(got);
}

}  // namespace weft
