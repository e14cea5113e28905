// Changing bytes of a string value where it lies: in memory by range effects, in an extent by a new value made on a worker.
#pragma once

#include <string>
#include <string_view>

#include "command/string_value.h"

namespace pion {

// The bytes of a string in memory; an integer is printed into `text`. Valid as long as the entry is.
std::string_view string_bytes(const Entry& entry, char (&text)[20]);

// A string that may be read and written. write() makes it longer when it ends behind the end (zeros in a gap).
class MutableString {
 public:
  virtual ~MutableString() = default;
  virtual std::string_view bytes() const = 0;  // until the next write
  virtual void write(uint64_t offset, std::string_view bytes) = 0;
};

// Calls change(MutableString&) -> bool with the string under the key (an empty one is made when there is none) and journals
// what it wrote; notifications call it "setbit" if `change` says that it did something. The string has `least_bytes` at least when it is called, and is
// raw from then on, as Redis has it. `change` writes no reply and may be called again when the key changed under a worker: it
// starts over then. kDone with *ran false: an error was answered.
template <typename Change>
Outcome change_string_value(CommandContext& ctx, const Key& key, uint64_t least_bytes, bool* ran, Change&& change);

// As above, with the type erased.
class StringChange {
 public:
  virtual ~StringChange() = default;
  virtual bool run(MutableString& string) = 0;
};
Outcome run_string_change(CommandContext& ctx, const Key& key, uint64_t least_bytes, bool* ran, StringChange& change);

template <typename Change>
Outcome change_string_value(CommandContext& ctx, const Key& key, uint64_t least_bytes, bool* ran, Change&& change) {
  class Erased final : public StringChange {
   public:
    explicit Erased(Change& call) : call_(call) {}
    bool run(MutableString& string) override { return call_(string); }

   private:
    Change& call_;
  } erased(change);
  return run_string_change(ctx, key, least_bytes, ran, erased);
}

}  // namespace pion
