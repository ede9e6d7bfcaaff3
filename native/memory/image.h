// Memory that does not change: a core file with the files that it leaves out, or bytes held here (a snapshot).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "memory/descriptor.h"
#include "memory/memory.h"

namespace weft {

// A run of addresses, and where its bytes come from.
class ImageSegment {
   public:
    virtual ~ImageSegment() = default;
    ImageSegment(Address segment_begin, std::uint64_t segment_size) : begin(segment_begin), size(segment_size) {}
    // `offset` and `count` lie inside. False: the bytes are not there after all (the file is cut short).
    [[nodiscard]] virtual bool copy(std::uint64_t offset, void* to, std::size_t count) const = 0;

    const Address begin;
    const std::uint64_t size;
};

class ImageMemory final : public Memory {
   public:
    ImageMemory() = default;
    ImageMemory(const ImageMemory&) = delete;
    ImageMemory& operator=(const ImageMemory&) = delete;

    // Of segments that overlap, the one that was added first is read.
    void add_bytes(Address begin, std::string bytes);
    // Bytes of a file from `offset` on; throws std::system_error if it cannot be opened.
    void add_file(Address begin, std::uint64_t size, const std::string& path, std::uint64_t offset);
    void add_zeros(Address begin, std::uint64_t size);

    [[nodiscard]] ReadResult read(Address address, void* to, std::size_t size) override;

   private:
    // The segment that is read at `address`, and for how many bytes: one that was added before it may begin inside.
    const ImageSegment* find(Address address, std::uint64_t& size) const;

    std::map<std::string, std::shared_ptr<Descriptor>> files_;
    std::vector<std::unique_ptr<ImageSegment>> segments_;
};

}  // namespace weft
