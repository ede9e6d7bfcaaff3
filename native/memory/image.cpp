#include "memory/image.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace weft {

namespace {

class BytesSegment final : public ImageSegment {
   public:
    BytesSegment(Address at, std::string bytes) : ImageSegment(at, bytes.size()), bytes_(std::move(bytes)) {}
    bool copy(std::uint64_t offset, void* to, std::size_t count) const override {
        std::memcpy(to, bytes_.data() + offset, count);
        return true;
    }

   private:
    std::string bytes_;
};

class ZeroSegment final : public ImageSegment {
   public:
    using ImageSegment::ImageSegment;
    bool copy(std::uint64_t /*offset*/, void* to, std::size_t count) const override {
        std::memset(to, 0, count);
        return true;
    }
};

// Read, not mapped: a file that is cut short under a mapping would kill us.
class FileSegment final : public ImageSegment {
   public:
    FileSegment(Address at, std::uint64_t length, std::shared_ptr<Descriptor> file, std::uint64_t offset)
        : ImageSegment(at, length), file_(std::move(file)), offset_(offset) {}

    bool copy(std::uint64_t offset, void* to, std::size_t count) const override {
        return pread(file_->get(), to, count, static_cast<off_t>(offset_ + offset)) == static_cast<ssize_t>(count);
    }

   private:
    std::shared_ptr<Descriptor> file_;
    std::uint64_t offset_;
};

}  // namespace

void ImageMemory::add_bytes(Address begin, std::string bytes) {
    segments_.push_back(std::make_unique<BytesSegment>(begin, std::move(bytes)));
}

void ImageMemory::add_file(Address begin, std::uint64_t size, const std::string& path, std::uint64_t offset) {
    auto& file = files_[path];
    if (!file) {
        file = std::make_shared<Descriptor>(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    }
    if (!file->valid()) {
        throw std::system_error(errno, std::generic_category(), path);
    }
    segments_.push_back(std::make_unique<FileSegment>(begin, size, file, offset));
}

void ImageMemory::add_zeros(Address begin, std::uint64_t size) {
    segments_.push_back(std::make_unique<ZeroSegment>(begin, size));
}

const ImageSegment* ImageMemory::find(Address address, std::uint64_t& size) const {
    size = ~std::uint64_t{0};
    for (const auto& segment : segments_) {
        if (address - segment->begin < segment->size) {
            size = std::min(size, segment->size - (address - segment->begin));
            return segment.get();
        }
        size = segment->size == 0 ? size : std::min(size, segment->begin - address);  // it is read from there on
    }
    return nullptr;
}

ReadResult ImageMemory::read(Address address, void* to, std::size_t size) {
    auto* out = static_cast<std::byte*>(to);
    while (size > 0) {
        std::uint64_t there = 0;
        const ImageSegment* segment = find(address, there);
        if (segment == nullptr) {
            return ReadResult::kUnmapped;
        }
        const std::uint64_t offset = address - segment->begin;
        const std::size_t count = std::min<std::uint64_t>(size, there);
        if (!segment->copy(offset, out, count)) {
            return ReadResult::kUnmapped;
        }
        address += count;
        out += count;
        size -= count;
    }
    return ReadResult::kOk;
}

}  // namespace weft
