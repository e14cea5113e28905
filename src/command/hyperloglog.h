// HyperLogLog (P. Flajolet et al., 2007) in the bytes that Redis keeps: a header of 16 bytes ("HYLL", encoding, 3 unused, the
// cached cardinality, little-endian, whose highest bit says that it is stale), then 16,384 registers, dense (6 bits each, the
// lowest first) or sparse (runs: 00llllll zeros, 01llllll llllllll zeros, 1vvvvvll values of 1 to 32; lengths and values less
// one). The estimate is O. Ertl's ("New cardinality estimation algorithms for HyperLogLog sketches", 2017, algorithm 6). Equal
// additions give equal bytes as on Redis 8.2. Pure functions over bytes, any thread; bytes may come from anybody.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pion::hll {

inline constexpr size_t kHeaderBytes = 16;
inline constexpr unsigned kIndexBits = 14, kRegisters = 1u << kIndexBits, kHashBits = 64 - kIndexBits;
inline constexpr size_t kDenseBytes = kHeaderBytes + kRegisters * 6 / 8;
inline constexpr size_t kCardinalityOffset = 8, kStaleOffset = 15;
inline constexpr char kStaleBit = static_cast<char>(0x80);

enum class Encoding : uint8_t { kDense = 0, kSparse = 1 };
using Registers = std::array<uint8_t, kRegisters>;

// The header and, for a dense one, the length. Says nothing of sparse runs: they are checked when they are read.
bool is_valid(std::string_view value);
Encoding encoding(std::string_view value);

std::string make_sparse();

// The register an element belongs to and what it raises it to.
struct Place {
  unsigned index;
  uint8_t count;
};
Place place_of(std::string_view element);

// Empty: the runs are damaged (of those up to the register).
std::optional<uint8_t> register_at(std::string_view value, unsigned index);

enum class Raised { kUnchanged, kRaised, kDamaged };
// Raises a register of either encoding; a sparse value becomes dense when a count or its length (`sparse_most_bytes`, header
// included) asks for it. Marks the cache stale when it changed something.
Raised raise(std::string& value, Place place, uint64_t sparse_most_bytes);

// False: damaged; the value is unchanged.
bool make_dense(std::string& value);

// registers[i] = max(registers[i], value's). False: damaged.
bool merge_into(Registers& registers, std::string_view value);
void write_dense(std::string& value, const Registers& registers);  // into a dense value

// Empty: damaged.
std::optional<uint64_t> estimate(std::string_view value);
uint64_t estimate(const Registers& registers);

std::optional<uint64_t> cached(std::string_view value);
void mark_stale(std::string& value);

// The runs as PFDEBUG DECODE prints them: "Z:12711 v:2,1 z:5"; damaged ones too.
std::string describe_runs(std::string_view value);

}  // namespace pion::hll
