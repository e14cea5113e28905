#include "command/hyperloglog.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/bytes.h"

namespace pion::hll {
namespace {

constexpr uint64_t kSeed = 0xadc83b19;          // Redis' own
constexpr uint8_t kLargestSparse = 32;          // a larger value does not fit a sparse run
constexpr unsigned kLongestValueRun = 4, kLongestShortZeros = 64;
using Histogram = std::array<uint32_t, 64>;

// MurmurHash64A (A. Appleby), little-endian.
uint64_t murmur(std::string_view bytes) {
  constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995;
  constexpr int kShift = 47;
  uint64_t hash = kSeed ^ (bytes.size() * kMultiplier);
  while (bytes.size() >= 8) {
    uint64_t word = load_le<uint64_t>(bytes.data()) * kMultiplier;
    word = (word ^ word >> kShift) * kMultiplier;
    hash = (hash ^ word) * kMultiplier;
    bytes.remove_prefix(8);
  }
  if (!bytes.empty()) {
    uint64_t rest = 0;
    std::memcpy(&rest, bytes.data(), bytes.size());
    hash = (hash ^ rest) * kMultiplier;
  }
  hash = (hash ^ hash >> kShift) * kMultiplier;
  return hash ^ hash >> kShift;
}

// A run of a sparse value: `length` registers of `value`.
struct Run {
  unsigned length = 0;
  uint8_t value = 0;
  size_t bytes = 1;
};

// Reads the run at `at`. A second byte that is missing counts as zero: Redis' strings have one behind their end.
Run run_at(std::string_view value, size_t at) {
  const auto byte = static_cast<uint8_t>(value[at]);
  if (byte & 0x80) return {(byte & 3u) + 1, static_cast<uint8_t>((byte >> 2 & 31) + 1), 1};
  if (!(byte & 0x40)) return {(byte & 63u) + 1, 0, 1};
  const auto second = at + 1 < value.size() ? static_cast<uint8_t>(value[at + 1]) : uint8_t{0};
  return {((byte & 63u) << 8 | second) + 1, 0, 2};
}

void put_run(std::string& to, unsigned length, uint8_t value) {
  if (length == 0) return;
  if (value != 0) {
    to.push_back(static_cast<char>(0x80 | (value - 1) << 2 | (length - 1)));
  } else if (length <= kLongestShortZeros) {
    to.push_back(static_cast<char>(length - 1));
  } else {
    to.push_back(static_cast<char>(0x40 | (length - 1) >> 8));
    to.push_back(static_cast<char>((length - 1) & 0xff));
  }
}

// Calls visit(run, first register) for each; false when they do not make 16,384 registers exactly.
template <typename Visit>
bool each_run(std::string_view value, Visit&& visit) {
  unsigned first = 0;
  for (size_t at = kHeaderBytes; at < value.size();) {
    const Run run = run_at(value, at);
    if (first + run.length > kRegisters) return false;
    visit(run, first);
    first += run.length;
    at += run.bytes;
  }
  return first == kRegisters;
}

uint8_t dense_register(std::string_view value, unsigned index) {
  const char* at = value.data() + kHeaderBytes + index * 6 / 8;
  const unsigned shift = index * 6 % 8;
  unsigned bits = static_cast<uint8_t>(at[0]) >> shift;
  if (shift > 2) bits |= static_cast<unsigned>(static_cast<uint8_t>(at[1])) << (8 - shift);
  return bits & 63;
}

void set_dense_register(std::string& value, unsigned index, uint8_t count) {
  char* at = value.data() + kHeaderBytes + index * 6 / 8;
  const unsigned shift = index * 6 % 8;
  at[0] = static_cast<char>((static_cast<uint8_t>(at[0]) & ~(63u << shift)) | count << shift);
  if (shift > 2) at[1] = static_cast<char>((static_cast<uint8_t>(at[1]) & ~(63u >> (8 - shift))) | count >> (8 - shift));
}

Raised raise_dense(std::string& value, Place place) {
  if (dense_register(value, place.index) >= place.count) return Raised::kUnchanged;
  set_dense_register(value, place.index, place.count);
  mark_stale(value);
  return Raised::kRaised;
}

// Neighbouring runs of equal values become one where it fits, in the five runs from `at` on: what a change may have made.
void join_runs(std::string& value, size_t at) {
  for (int looked_at = 0; looked_at < 5 && at < value.size(); ++looked_at) {
    const Run run = run_at(value, at);
    if (run.value != 0 && at + 1 < value.size()) {
      const Run next = run_at(value, at + 1);
      if (next.value == run.value && run.length + next.length <= kLongestValueRun) {
        std::string joined;
        put_run(joined, run.length + next.length, run.value);
        value.replace(at, 2, joined);
        continue;  // perhaps with the next one too
      }
    }
    at += run.bytes;
  }
}

Raised raise_sparse(std::string& value, Place place, uint64_t most_bytes) {
  const auto as_dense = [&] { return make_dense(value) ? raise_dense(value, place) : Raised::kDamaged; };
  if (place.count > kLargestSparse) return as_dense();
  unsigned first = 0;
  size_t at = kHeaderBytes, before = kHeaderBytes;
  Run run;
  while (at < value.size()) {
    run = run_at(value, at);
    if (place.index < first + run.length) break;
    before = at;
    at += run.bytes;
    first += run.length;
  }
  if (at >= value.size()) return Raised::kDamaged;
  if (run.value >= place.count) return Raised::kUnchanged;
  std::string parts;
  put_run(parts, place.index - first, run.value);
  put_run(parts, 1, place.count);
  put_run(parts, first + run.length - 1 - place.index, run.value);
  const bool grows = parts.size() > run.bytes;
  if (grows && value.size() + (parts.size() - run.bytes) > most_bytes) return as_dense();
  const bool cut = at + run.bytes > value.size();
  value.replace(at, run.bytes, parts);
  if (cut) value.pop_back();  // its missing byte stays missing, as on Redis
  join_runs(value, before);
  mark_stale(value);
  return Raised::kRaised;
}

// Helpers of Ertl's estimator, equations of section 2.4: sums of series until they stand still.
double sigma(double x) {
  if (x == 1) return std::numeric_limits<double>::infinity();
  double power = 1, sum = x, last;
  do {
    x *= x;
    last = sum;
    sum += x * power;
    power += power;
  } while (sum != last);
  return sum;
}

double tau(double x) {
  if (x == 0 || x == 1) return 0;
  double power = 1, sum = 1 - x, last;
  do {
    x = std::sqrt(x);
    last = sum;
    power *= 0.5;
    sum -= (1 - x) * (1 - x) * power;
  } while (sum != last);
  return sum / 3;
}

uint64_t estimate_of(const Histogram& counts) {
  constexpr double kAlpha = 0.721347520444481703680;  // 1 / (2 ln 2)
  constexpr double kM = kRegisters;
  double z = kM * tau((kM - counts[kHashBits + 1]) / kM);
  for (unsigned k = kHashBits; k >= 1; --k) z = (z + counts[k]) * 0.5;
  z += kM * sigma(counts[0] / kM);
  return static_cast<uint64_t>(std::llround(kAlpha * kM * kM / z));
}

}  // namespace

bool is_valid(std::string_view value) {
  if (value.size() < kHeaderBytes || !value.starts_with("HYLL")) return false;
  if (static_cast<uint8_t>(value[4]) > static_cast<uint8_t>(Encoding::kSparse)) return false;
  return encoding(value) == Encoding::kSparse || value.size() == kDenseBytes;
}

Encoding encoding(std::string_view value) { return static_cast<Encoding>(value[4]); }

std::string make_sparse() {
  std::string value(kHeaderBytes, '\0');
  value.replace(0, 4, "HYLL");
  value[4] = static_cast<char>(Encoding::kSparse);
  put_run(value, kRegisters, 0);
  return value;
}

Place place_of(std::string_view element) {
  const uint64_t hash = murmur(element);
  const uint64_t rest = hash >> kIndexBits | 1ULL << kHashBits;  // the bit ends the count
  return {static_cast<unsigned>(hash & (kRegisters - 1)), static_cast<uint8_t>(std::countr_zero(rest) + 1)};
}

std::optional<uint8_t> register_at(std::string_view value, unsigned index) {
  if (encoding(value) == Encoding::kDense) return dense_register(value, index);
  unsigned first = 0;
  for (size_t at = kHeaderBytes; at < value.size();) {
    const Run run = run_at(value, at);
    first += run.length;
    if (index < first) return run.value;
    at += run.bytes;
  }
  return std::nullopt;
}

Raised raise(std::string& value, Place place, uint64_t sparse_most_bytes) {
  return encoding(value) == Encoding::kDense ? raise_dense(value, place) : raise_sparse(value, place, sparse_most_bytes);
}

bool make_dense(std::string& value) {
  if (encoding(value) == Encoding::kDense) return true;
  std::string dense(kDenseBytes, '\0');
  dense.replace(0, kHeaderBytes, value, 0, kHeaderBytes);
  dense[4] = static_cast<char>(Encoding::kDense);
  const bool whole = each_run(value, [&](const Run& run, unsigned first) {
    for (unsigned i = first; run.value != 0 && i < first + run.length; ++i) set_dense_register(dense, i, run.value);
  });
  if (whole) value.swap(dense);
  return whole;
}

bool merge_into(Registers& registers, std::string_view value) {
  if (encoding(value) == Encoding::kDense) {
    for (unsigned i = 0; i < kRegisters; ++i) registers[i] = std::max(registers[i], dense_register(value, i));
    return true;
  }
  return each_run(value, [&](const Run& run, unsigned first) {
    for (unsigned i = first; run.value != 0 && i < first + run.length; ++i) registers[i] = std::max(registers[i], run.value);
  });
}

void write_dense(std::string& value, const Registers& registers) {
  for (unsigned i = 0; i < kRegisters; ++i) set_dense_register(value, i, registers[i]);
}

std::optional<uint64_t> estimate(std::string_view value) {
  Histogram counts{};
  if (encoding(value) == Encoding::kDense) {
    for (unsigned i = 0; i < kRegisters; ++i) ++counts[dense_register(value, i)];
  } else if (!each_run(value, [&](const Run& run, unsigned) { counts[run.value] += run.length; })) {
    return std::nullopt;
  }
  return estimate_of(counts);
}

uint64_t estimate(const Registers& registers) {
  Histogram counts{};
  for (const uint8_t count : registers) ++counts[count];
  return estimate_of(counts);
}

std::optional<uint64_t> cached(std::string_view value) {
  if (value[kStaleOffset] & kStaleBit) return std::nullopt;
  return load_le<uint64_t>(value.data() + kCardinalityOffset);
}

void mark_stale(std::string& value) { value[kStaleOffset] = static_cast<char>(value[kStaleOffset] | kStaleBit); }

std::string describe_runs(std::string_view value) {
  std::string text;
  for (size_t at = kHeaderBytes; at < value.size();) {
    const Run run = run_at(value, at);
    if (!text.empty()) text.push_back(' ');
    text += run.value != 0 ? "v:" + std::to_string(run.value) + "," : run.bytes == 2 ? "Z:" : "z:";
    text += std::to_string(run.length);
    at += run.bytes;
  }
  return text;
}

}  // namespace pion::hll
