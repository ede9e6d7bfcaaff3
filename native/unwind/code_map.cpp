#include "unwind/code_map.h"

#include <algorithm>

namespace weft {

void CodeMap::add(Address begin, Address end, Address bias, std::uint32_t module,
                  std::shared_ptr<const UnwindTable> table, bool anonymous) {
    if (begin >= end) {
        return;
    }
    if (mappings_.empty() || mappings_.back().range.end <= begin) {  // as a rule; a process may have 65,530 of them
        mappings_.push_back({{begin, end}, bias, module, std::move(table), anonymous});
        remembered_.clear();
        return;
    }
    std::vector<Mapping> kept;
    for (const Mapping& mapping : mappings_) {
        // What lies under the new one is cut off, before and behind.
        for (const Range part : {Range{mapping.range.begin, std::min(mapping.range.end, begin)},
                                 Range{std::max(mapping.range.begin, end), mapping.range.end}}) {
            if (part.begin < part.end) {
                kept.push_back(mapping);
                kept.back().range = part;
            }
        }
    }
    kept.push_back({{begin, end}, bias, module, std::move(table), anonymous});
    std::ranges::sort(kept, {}, [](const Mapping& mapping) { return mapping.range.begin; });
    mappings_ = std::move(kept);
    remembered_.clear();
}

void CodeMap::add_eval_loop(Address begin, Address end) {
    eval_loops_.push_back({begin, end});
    remembered_.clear();
}

void CodeMap::add_stack_base(Address begin, Address end) {
    stack_bases_.push_back({begin, end});
    remembered_.clear();
}

std::vector<CodeMap::Mapped> CodeMap::mapped() const {
    std::vector<Mapped> all;
    for (const Mapping& mapping : mappings_) {
        if (mapping.table != nullptr) {
            all.push_back({mapping.range.begin, mapping.range.end, mapping.bias, mapping.table});
        }
    }
    return all;
}

std::vector<std::pair<Address, Address>> CodeMap::eval_loops() const {
    std::vector<std::pair<Address, Address>> all;
    all.reserve(eval_loops_.size());
    for (const Range& range : eval_loops_) {
        all.emplace_back(range.begin, range.end);
    }
    return all;
}

const CodeMap::Place& CodeMap::find(Address pc) {
    if (remembered_.empty()) {
        remembered_.resize(std::size_t{1} << kRememberedBits);
    }
    Remembered& slot = remembered_[(pc * 0x9e3779b97f4a7c15ULL) >> (64 - kRememberedBits)];
    if (slot.pc != pc) {
        slot = {pc, search(pc)};
    }
    return slot.place;
}

CodeMap::Place CodeMap::search(Address pc) const {
    const auto after =
        std::ranges::upper_bound(mappings_, pc, {}, [](const Mapping& mapping) { return mapping.range.begin; });
    if (after == mappings_.begin()) {
        return {};
    }
    const Mapping& mapping = *std::prev(after);
    if (pc >= mapping.range.end) {
        return {};
    }
    const auto is_among = [&](const std::vector<Range>& ranges) {
        return std::ranges::any_of(ranges, [&](const Range& range) { return pc >= range.begin && pc < range.end; });
    };
    Place place;
    place.module = mapping.module;
    place.address = pc - mapping.bias;
    place.table = mapping.table.get();
    if (place.table != nullptr) {
        place.rule = &place.table->find(place.address);
    }
    place.eval_loop = is_among(eval_loops_);
    place.stack_base = is_among(stack_bases_);
    place.anonymous = mapping.anonymous;
    return place;
}

}  // namespace weft
