#include "unwind/table.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <type_traits>

#include "unwind/code_rule.h"

namespace weft {

namespace {

constexpr std::uint32_t kMagic = 0x33747577;    // "wut3": the version is in it
constexpr std::uint64_t kMaxSpan = 1ULL << 30;  // of a module's code; calls reach 2 GiB, libtorch_cpu has 0.2
static_assert(RuleTable::kMax <= 1 << 20);      // what a row has room for
constexpr std::uint32_t kLow = 0xfff;
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

void add_code(const FunctionCode& function, Cfi& cfi) {
    CfiFunction& added = cfi.functions.emplace_back();
    added.begin = function.begin;
    added.end = function.end;
    added.first_row = cfi.rows.size();
    for (const PrologueRow& row : rules_of_prologue(function.bytes)) {
        cfi.rows.push_back({static_cast<std::uint32_t>(row.offset), cfi.rules.intern(row.rule)});
    }
    added.rows = cfi.rows.size() - added.first_row;
}

// glibc's start files have CFI that says so; those of musl, and of the dynamic loader, have none. They are a few instructions that
// nobody has called.
void add_entry(std::uint64_t entry, Cfi& cfi) {
    std::uint64_t end = entry + kMostOfEntry;
    for (const CfiFunction& function : cfi.functions) {
        if (function.begin <= entry && entry < function.end) {
            return;
        }
        if (function.begin > entry) {
            end = std::min(end, function.begin);
        }
    }
    UnwindRule rule;
    rule.cfa = UnwindRule::Cfa::kEnd;
    cfi.functions.push_back({.begin = entry, .end = end, .first_row = cfi.rows.size(), .rows = 1});
    cfi.rows.push_back({0, cfi.rules.intern(rule)});
}

}  // namespace

UnwindTable UnwindTable::build(std::span<const CfiSection> sections, std::span<const FunctionCode> code,
                               std::optional<std::uint64_t> entry) {
    Cfi cfi;
    for (const CfiSection& section : sections) {
        read_cfi(section, cfi);
    }
    if (entry) {
        add_entry(*entry, cfi);
    }
    for (const FunctionCode& function : code) {
        add_code(function, cfi);
    }
    UnwindTable table;
    std::vector<const CfiFunction*> functions;
    functions.reserve(cfi.functions.size());
    for (const CfiFunction& function : cfi.functions) {
        functions.push_back(&function);
    }
    std::ranges::stable_sort(functions, {}, &CfiFunction::begin);
    table.fill(cfi, functions);
    table.rules_ = cfi.rules.rules();
    table.losses_ = cfi.losses;
    return table;
}

std::uint32_t UnwindTable::next_number() {
    static std::atomic<std::uint32_t> last{0};
    return ++last;
}

void UnwindTable::fill(const Cfi& cfi, const std::vector<const CfiFunction*>& functions) {
    if (functions.empty()) {
        return;
    }
    rows_.reserve(cfi.rows.size());
    const std::uint64_t begin = functions.front()->begin;
    first_page_ = begin >> kPageBits;
    std::uint64_t end = begin;  // of the functions so far
    for (const CfiFunction* function : functions) {
        if (function->begin < end || function->end - begin > kMaxSpan) {
            ++losses_.overlaps;
            continue;
        }
        if (function->begin > end) {
            add(end, 0);
        }
        std::uint64_t at = function->begin;
        for (const CfiRow& row : std::span(cfi.rows).subspan(function->first_row, function->rows)) {
            // In order, and inside.
            if (const std::uint64_t address = function->begin + row.offset; address >= at && address < function->end) {
                at = address;
                add(at, row.rule);
            }
        }
        end = function->end;
    }
    add(end, 0);
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
    const auto begin = rows_.begin() + pages_[page];
    const auto end = page + 1 < pages_.size() ? rows_.begin() + pages_[page + 1] : rows_.end();
    const auto low = static_cast<std::uint32_t>(address) & kLow;
    const auto after =
        std::upper_bound(begin, end, low, [](std::uint32_t at, std::uint32_t row) { return at < (row & kLow); });
    return rules_[*(after - 1) >> kPageBits];
}

std::size_t UnwindTable::bytes() const {
    return (pages_.size() + rows_.size()) * sizeof(std::uint32_t) + rules_.size() * sizeof(UnwindRule);
}

std::string UnwindTable::save() const {
    std::string bytes;
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
