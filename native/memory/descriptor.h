#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace weft {

// A file descriptor that closes itself.
class Descriptor {
   public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    int get() const { return fd_; }
    bool valid() const { return fd_ >= 0; }

   private:
    int fd_ = -1;
};

// Whether the file is one of the first `quarters` of those that this process may have open: the kernel gives the lowest number
// that is free. What can do without further files keeps to that, so that there are some left for what cannot.
inline bool is_among_first(const Descriptor& file, unsigned quarters) {
    rlimit limit{};
    return getrlimit(RLIMIT_NOFILE, &limit) != 0 || static_cast<rlim_t>(file.get()) < limit.rlim_cur / 4 * quarters;
}

}  // namespace weft
