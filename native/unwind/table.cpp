#include "unwind/table.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <type_traits>

#include "unwind/code_rule.h"

namespace weft {

namespace {

constexpr std::uint32_t kMagic = 0x34747577;    // "wut4": the version is in it
constexpr std::uint64_t kMaxSpan = 1ULL << 30;  // of a module's code; calls reach 2 GiB, libtorch_cpu has 0.2
static_assert(RuleTable::kMax <= 1 << 20);      // what a row has room for
constexpr std::uint32_t kLow = 0xfff;
constexpr std::size_t kHeader = 64;         // bytes, and more than there are
constexpr std::size_t kBytesPerRow = 4;     // of .eh_frame, at least; libtorch has 6
constexpr std::uint64_t kMostOfEntry = 64;  // bytes; the dynamic loader's has 0x38

// Numbers as they lie in memory: a table is loaded on the machine that has saved it.
template <typename T>
void put(std::string& to, const T& value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_all(std::string& to, const std::vector<std::uint32_t>& values) {
    put(to, static_cast<std::uint64_t>(values.size()));
    to.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof values.front());
}

void put(std::string& to, const Saved& saved) {
    put(to, saved.where);
    put(to, saved.base);
    put(to, saved.offset);
}

void put(std::string& to, const UnwindRule& rule) {
    put(to, rule.cfa);
    put(to, rule.base);
    put(to, rule.signal);
    put(to, rule.by_code);
    put(to, rule.offset);
    put(to, rule.addend);
    put(to, rule.return_address);
    for (const Saved& saved : rule.saved) {
        put(to, saved);
    }
}

// Takes values off the front of bytes; after one that is not there or out of range, failed.
class Taker {
   public:
    explicit Taker(std::string_view bytes) : bytes_(bytes) {}

    bool failed() const { return failed_; }
    bool at_end() const { return bytes_.empty(); }

    template <typename T>
    T number(T most = std::numeric_limits<T>::max()) {
        T value{};
        if (bytes_.size() < sizeof value) {
            failed_ = true;
            return value;
        }
        bytes_.copy(reinterpret_cast<char*>(&value), sizeof value);
        bytes_.remove_prefix(sizeof value);
        failed_ = failed_ || value > most;
        return value;
    }

    template <typename T>
    T one_of(T last) {
        const auto value = number<std::underlying_type_t<T>>(static_cast<std::underlying_type_t<T>>(last));
        return failed_ ? T{} : static_cast<T>(value);
    }

    std::vector<std::uint32_t> numbers() {
        const auto count = number<std::uint64_t>();
        failed_ = failed_ || count > bytes_.size() / sizeof(std::uint32_t);
        std::vector<std::uint32_t> values(failed_ ? 0 : count);
        bytes_.copy(reinterpret_cast<char*>(values.data()), values.size() * sizeof(std::uint32_t));
        bytes_.remove_prefix(values.size() * sizeof(std::uint32_t));
        return values;
    }

    Saved saved() {
        Saved saved;
        saved.where = one_of(Saved::Where::kLost);
        saved.base = one_of(Register::kReturn);
        saved.offset = number<std::int32_t>();
        return saved;
    }

    UnwindRule rule() {
        UnwindRule rule;
        rule.cfa = one_of(UnwindRule::Cfa::kPlt);
        rule.base = one_of(Register::kReturn);
        rule.signal = number<std::uint8_t>(1) == 1;
        rule.by_code = number<std::uint8_t>(1) == 1;
        rule.offset = number<std::int32_t>();
        rule.addend = number<std::int32_t>();
        rule.return_address = saved();
        for (Saved& each : rule.saved) {
            each = saved();
        }
        return rule;
    }

   private:
    std::string_view bytes_;
    bool failed_ = false;
};

}  // namespace

// Rules for a piece of code of which nothing is known.
struct UnwindTable::Addition {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::vector<CfiRow> rows;  // in order, the first at 0
};

UnwindTable UnwindTable::build(std::span<const CfiSection> sections) {
    UnwindTable table;
    Cfi cfi(sections);
    if (cfi.functions().empty()) {
        table.losses_ = cfi.losses();
        return table;
    }
    const std::uint64_t begin = cfi.functions().front().begin;
    table.first_page_ = begin >> kPageBits;
    std::size_t bytes = 0;
    for (const CfiSection& section : sections) {
        bytes += section.bytes.size();
    }
    table.rows_.reserve(bytes / kBytesPerRow);  // what is not used of it costs nothing
    std::uint64_t end = begin;                  // of the functions so far
    std::uint64_t overlaps = 0;
    RuleTable rules;
    for (const CfiFunction& function : cfi.functions()) {
        if (function.begin < end || function.end - begin > kMaxSpan) {
            ++overlaps;
            continue;
        }
        const std::span<const CfiRow> rows = cfi.rows_of(function, rules);
        if (rows.empty()) {
            continue;
        }
        if (function.begin > end) {
            table.add(end, 0);
        }
        std::uint64_t at = function.begin;
        for (const CfiRow& row : rows) {
            // In order, and inside.
            if (const std::uint64_t address = function.begin + row.offset; address >= at && address < function.end) {
                at = address;
                table.add(at, row.rule);
            }
        }
        end = function.end;
    }
    table.add(end, 0);
    table.rules_ = rules.rules();
    table.losses_ = cfi.losses();
    table.losses_.overlaps = overlaps;
    return table;
}

UnwindTable UnwindTable::with_functions(std::span<const FunctionCode> functions) const {
    std::vector<Addition> additions;
    RuleTable rules(rules_);
    for (const FunctionCode& function : functions) {
        Addition added{.begin = function.begin, .end = function.end, .rows = {}};
        for (const PrologueRow& row : rules_of_prologue(function.bytes)) {
            added.rows.push_back({static_cast<std::uint32_t>(row.offset), rules.intern(row.rule)});
        }
        additions.push_back(std::move(added));
    }
    return with(additions, rules);
}

// glibc's start files have CFI that says so; those of musl, and of the dynamic loader, have none. They are a few instructions
// that nobody has called.
UnwindTable UnwindTable::with_entry(std::uint64_t entry) const {
    std::uint64_t end = entry + 1;
    while (end - entry < kMostOfEntry && !knows(end)) {
        ++end;
    }
    RuleTable rules(rules_);
    UnwindRule rule;
    rule.cfa = UnwindRule::Cfa::kEnd;
    const Addition added{.begin = entry, .end = end, .rows = {{0, rules.intern(rule)}}};
    return with({&added, 1}, rules);
}

UnwindTable UnwindTable::with(std::span<const Addition> additions, const RuleTable& rules) const {
    std::uint64_t begin = first_page_ << kPageBits;
    std::uint64_t last = begin + (pages_.size() << kPageBits) - 1;  // the end may be beyond what 64 bits hold
    UnwindTable table;
    table.rules_ = rules.rules();
    table.losses_ = losses_;
    std::vector<const Addition*> held;
    for (const Addition& addition : additions) {
        if (pages_.empty() && held.empty()) {
            begin = last = addition.begin;
        }
        const std::uint64_t least = std::min(begin, addition.begin);
        const std::uint64_t most = std::max(last, addition.end - 1);
        if (addition.begin >= addition.end || most - least >= kMaxSpan ||
            (!held.empty() && addition.begin < held.back()->end) || knows_any(addition.begin, addition.end)) {
            ++table.losses_.overlaps;
            continue;
        }
        begin = least;
        last = most;
        held.push_back(&addition);
    }
    table.first_page_ = begin >> kPageBits;
    table.rows_.reserve(rows_.size());
    auto next = held.begin();
    std::uint64_t added = 0;  // up to where
    const auto add_before = [&](std::uint64_t address) {
        for (; next != held.end() && (*next)->begin < address; ++next) {
            for (const CfiRow& row : (*next)->rows) {
                table.add((*next)->begin + row.offset, row.rule);
            }
            added = (*next)->end;
            table.add(added, 0);
        }
    };
    for (std::size_t page = 0; page < pages_.size(); ++page) {
        for (const std::uint32_t row : rows_of(page)) {
            const std::uint64_t address = (first_page_ + page) << kPageBits | (row & kLow);
            add_before(address);
            if (address >= added) {  // pages that begin within an addition have a row that tells of nothing
                table.add(address, row >> kPageBits);
            }
        }
    }
    add_before(std::numeric_limits<std::uint64_t>::max());
    return table;
}

bool UnwindTable::knows_any(std::uint64_t begin, std::uint64_t end) const {
    const std::uint64_t pages_end = first_page_ + pages_.size();
    for (std::uint64_t page = std::max(begin >> kPageBits, first_page_); page < pages_end; ++page) {
        const std::uint64_t from = std::max(begin, page << kPageBits);
        if (from >= end) {
            return false;
        }
        const auto tells = [&](std::uint32_t row) {
            const std::uint64_t address = page << kPageBits | (row & kLow);
            return from < address && address < end && rules_[row >> kPageBits].cfa != UnwindRule::Cfa::kNone;
        };
        if (knows(from) || std::ranges::any_of(rows_of(page - first_page_), tells)) {
            return true;
        }
    }
    return false;
}

std::uint32_t UnwindTable::next_number() {
    static std::atomic<std::uint32_t> last{0};
    return ++last;
}

// Addresses come in order.
void UnwindTable::add(std::uint64_t address, std::uint32_t rule) {
    const std::uint64_t page = (address >> kPageBits) - first_page_;
    // The last rule goes on in the pages up to this one.
    if (const std::size_t known = pages_.size(); known <= page) {
        const std::uint32_t last = rows_.empty() ? 0 : rows_.back() >> kPageBits;
        pages_.resize(page + 1);
        std::iota(pages_.begin() + static_cast<std::ptrdiff_t>(known), pages_.end(),
                  static_cast<std::uint32_t>(rows_.size()));
        rows_.resize(rows_.size() + pages_.size() - known, last << kPageBits);
    }
    const auto low = static_cast<std::uint32_t>(address) & kLow;
    if ((rows_.back() & kLow) == low) {
        rows_.back() = rule << kPageBits | low;
    } else if (rows_.back() >> kPageBits != rule) {
        rows_.push_back(rule << kPageBits | low);
    }
}

const UnwindRule& UnwindTable::find(std::uint64_t address) const {
    const std::uint64_t page = (address >> kPageBits) - first_page_;
    if (page >= pages_.size()) {
        return rules_.front();
    }
    const std::span<const std::uint32_t> rows = rows_of(page);
    const auto low = static_cast<std::uint32_t>(address) & kLow;
    const auto after = std::ranges::upper_bound(rows, low, {}, [](std::uint32_t row) { return row & kLow; });
    return rules_[*(after - 1) >> kPageBits];
}

std::span<const std::uint32_t> UnwindTable::rows_of(std::size_t page) const {
    const std::size_t end = page + 1 < pages_.size() ? pages_[page + 1] : rows_.size();
    return std::span(rows_).subspan(pages_[page], end - pages_[page]);
}

std::size_t UnwindTable::bytes() const {
    return (pages_.size() + rows_.size()) * sizeof(std::uint32_t) + rules_.size() * sizeof(UnwindRule);
}

std::string UnwindTable::save() const {
    std::string bytes;
    bytes.reserve(kHeader + this->bytes());
    put(bytes, kMagic);
    put(bytes, first_page_);
    put(bytes, losses_.functions);
    put(bytes, losses_.expressions);
    put(bytes, losses_.overlaps);
    put_all(bytes, pages_);
    put_all(bytes, rows_);
    put(bytes, static_cast<std::uint32_t>(rules_.size()));
    for (const UnwindRule& rule : rules_) {
        put(bytes, rule);
    }
    return bytes;
}

std::optional<UnwindTable> UnwindTable::load(std::string_view bytes) {
    UnwindTable table;
    Taker taker(bytes);
    if (taker.number<std::uint32_t>() != kMagic) {
        return std::nullopt;
    }
    table.first_page_ = taker.number<std::uint64_t>();
    table.losses_.functions = taker.number<std::uint64_t>();
    table.losses_.expressions = taker.number<std::uint64_t>();
    table.losses_.overlaps = taker.number<std::uint64_t>();
    table.pages_ = taker.numbers();
    table.rows_ = taker.numbers();
    table.rules_.clear();
    for (auto left = taker.number<std::uint32_t>(RuleTable::kMax); left != 0 && !taker.failed(); --left) {
        table.rules_.push_back(taker.rule());
    }
    return !taker.failed() && taker.at_end() && table.is_sound() ? std::optional(std::move(table)) : std::nullopt;
}

// What find() relies on.
bool UnwindTable::is_sound() const {
    std::uint32_t next = 0;
    for (const std::uint32_t first : pages_) {
        if (first < next || first >= rows_.size() || (rows_[first] & kLow) != 0) {
            return false;
        }
        next = first + 1;
    }
    return !rules_.empty() &&
           std::ranges::all_of(rows_, [&](std::uint32_t row) { return row >> kPageBits < rules_.size(); });
}

}  // namespace weft
