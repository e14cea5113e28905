// SORT and SORT_RO. docs/keyspace.md, "SORT", tells which locks it holds, and when.
#include <algorithm>
#include <compare>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "command/arguments.h"
#include "command/collection.h"
#include "command/families.h"
#include "command/sort_pattern.h"
#include "command/text_store.h"
#include "keyspace/hash_value.h"
#include "keyspace/list_value.h"
#include "keyspace/set_value.h"
#include "keyspace/sorted_set_value.h"
#include "storage/storage.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;

struct SortRequest {
  bool descending = false, alpha = false;
  std::optional<SortPattern> by;  // that names keys
  bool sorts = true;              // no: BY something that names no keys
  std::vector<SortPattern> gets;
  int64_t offset = 0, count = -1;
  size_t store = 0;               // the position of the key; 0: none

  bool gets_keys() const {
    return std::any_of(gets.begin(), gets.end(), [](const SortPattern& get) { return get.names_keys(); });
  }
  bool reads_keys() const { return by || gets_keys(); }
};

// False: the error was answered.
bool parse_sort(CommandContext& ctx, bool may_store, SortRequest& request) {
  for (size_t i = 2; i < ctx.argc(); ++i) {
    const std::string_view word = ctx.arg(i);
    const size_t behind = ctx.argc() - i - 1;
    if (same_word(word, "ASC")) {
      request.descending = false;
    } else if (same_word(word, "DESC")) {
      request.descending = true;
    } else if (same_word(word, "ALPHA")) {
      request.alpha = true;
    } else if (same_word(word, "LIMIT") && behind >= 2) {
      const auto offset = integer_argument(ctx.arg(i + 1)), count = offset ? integer_argument(ctx.arg(i + 2)) : std::nullopt;
      if (!offset || !count) return ctx.reply.error(kNotAnInteger), false;
      request.offset = *offset;
      request.count = *count;
      i += 2;
    } else if (may_store && same_word(word, "STORE") && behind >= 1) {
      request.store = ++i;
    } else if (same_word(word, "BY") && behind >= 1) {
      const SortPattern pattern(ctx.arg(++i));
      // Once something names no keys, it stays so, whatever comes behind it.
      if (!pattern.names_keys()) request.sorts = false;
      request.by.reset();
      if (pattern.names_keys()) request.by = pattern;
    } else if (same_word(word, "GET") && behind >= 1) {
      request.gets.emplace_back(ctx.arg(++i));
    } else {
      return ctx.reply.error(kSyntaxError), false;
    }
  }
  if (!request.sorts) request.by.reset();
  return true;
}

// A value in an extent, to be read when the locks are gone.
struct OnDisk {
  ExtentRef ref;
  uint64_t size;
  std::shared_ptr<const void> hold;
};

// What a pattern found for an element.
struct Fetched {
  enum class Kind : uint8_t { kNothing, kText, kOnDisk } kind = Kind::kNothing;
  std::string_view text;
  const OnDisk* on_disk = nullptr;
};

struct Item {
  std::string_view element;
  std::string_view weight_text;  // ALPHA BY
  double weight = 0;
  uint64_t number = 0;           // the order in which it came; among equals it stays
  uint64_t fetched = 0;          // where its values begin
  const OnDisk* weight_on_disk = nullptr;
  bool weightless = false;       // BY found nothing
};

int sign_of(std::strong_ordering order) { return order < 0 ? -1 : order > 0 ? 1 : 0; }

// As strcoll in the C locale.
int compare_collated(std::string_view a, std::string_view b) {
  return sign_of(a.substr(0, a.find('\0')) <=> b.substr(0, b.find('\0')));
}

class Order {
 public:
  explicit Order(const SortRequest& request) : request_(request) {}

  bool operator()(const Item& a, const Item& b) const {
    const int order = compare(a, b);
    return order == 0 ? a.number < b.number : (order < 0) != request_.descending;
  }

 private:
  int compare(const Item& a, const Item& b) const {
    if (!request_.alpha) {
      if (a.weight != b.weight) return a.weight < b.weight ? -1 : 1;
      return sign_of(a.element <=> b.element);
    }
    if (request_.by && (a.weightless || b.weightless)) return int{b.weightless} - int{a.weightless};
    const std::string_view first = request_.by ? a.weight_text : a.element, second = request_.by ? b.weight_text : b.element;
    // What is stored must not depend on a locale.
    return request_.store != 0 ? sign_of(first <=> second) : compare_collated(first, second);
  }

  const SortRequest& request_;
};

class Sorting {
 public:
  Sorting(CommandContext& ctx, SortRequest request) : ctx_(ctx), request_(std::move(request)) {}

  Outcome run() {
    lock(request_.reads_keys());
    const Found source = keys_->find(0, Lookup::kRead);
    if (source && !sortable(*source.entry)) return ctx_.reply.error(kWrongType), Outcome::kDone;
    if (source) measure(*source.entry);
    const uint64_t collected = request_.sorts ? size_ : end_ - begin_;
    const bool large = collected * (1 + request_.by.has_value()) + (end_ - begin_) * request_.gets.size() > kElementsOnReactor;
    if (large && !ctx_.on_worker) return Outcome::kNeedsWorker;
    if (source) collect(*source.entry);
    // From here on what the key held is not read any more.
    if (large && !request_.reads_keys()) keys_.reset();
    if (!weigh()) return outcome_;
    // Before anything is sorted or read from the disk: that takes longest, and needs no lock.
    const bool weights_on_disk = !on_disk_.empty();
    if (request_.gets_keys()) {
      if (!weights_on_disk) select();
      if (!fetch()) return outcome_;
    }
    if (large || !on_disk_.empty()) keys_.reset();
    if (weights_on_disk && !read_weights()) return outcome_;
    select();
    if (request_.sorts) std::sort(items_.begin(), items_.end(), Order(request_));
    return request_.store != 0 ? store() : reply();
  }

 private:
  static bool sortable(const Entry& entry) {
    return entry.type() == ValueType::kList || entry.type() == ValueType::kSet || entry.type() == ValueType::kSortedSet;
  }

  // The key to sort is the first, the one to store under the second.
  void lock(bool everything) {
    std::vector<std::string_view> names{ctx_.arg(1)};
    if (request_.store != 0) names.push_back(ctx_.arg(request_.store));
    everything ? keys_.emplace(ctx_, names, KeyAccess::All::kAll) : keys_.emplace(ctx_, names);
  }

  // How many elements there are, and which are wanted.
  void measure(const Entry& entry) {
    size_ = value_ops(entry.type())->length(entry);
    begin_ = std::min(static_cast<uint64_t>(std::max<int64_t>(request_.offset, 0)), size_);
    const uint64_t behind = size_ - begin_;
    end_ = request_.count < 0 ? size_ : begin_ + std::min(static_cast<uint64_t>(request_.count), behind);
    if (entry.type() == ValueType::kSet && request_.store != 0 && !request_.sorts) {
      // What is stored must not depend on the order of a table.
      request_.sorts = request_.alpha = true;
    }
  }

  void add(const ShortText& text) {
    char room[20];
    items_.push_back({.element = texts_.keep(text.view(room)), .number = items_.size()});
  }

  // All elements, or the wanted ones when they are not sorted.
  void collect(const Entry& entry) {
    const uint64_t wanted = request_.sorts ? size_ : end_ - begin_;
    if (wanted == 0) return;
    items_.reserve(wanted);
    const uint64_t skipped = request_.sorts ? 0 : begin_;
    const bool backwards = !request_.sorts && request_.descending;
    const uint64_t first = backwards ? size_ - 1 - skipped : skipped;
    const auto take = [&](const ShortText& text) { return add(text), items_.size() < wanted; };
    if (entry.type() == ValueType::kList) {
      const ListReader reader(entry);
      backwards ? reader.backward(first, take) : reader.forward(first, take);
    } else if (entry.type() == ValueType::kSortedSet) {
      SortedSetReader(entry).walk(first, backwards, [&](const ScoredMember& item) { return take(item.member); });
    } else {
      uint64_t passed = 0;
      SetReader(entry).each([&](const ShortText& member) { return passed++ < skipped || take(member); });
    }
  }

  // Under the locks. Empty kind: no such key or field, or of another type. The text lasts until the next call. False: outcome_ is set.
  bool look_up(const Key& key, std::string_view field, Fetched& fetched) {
    fetched = {};
    const Found found = keys_->access().find(ctx_.session.database, key, Lookup::kRead);
    if (!found || found.entry->type() != (field.empty() ? ValueType::kString : ValueType::kHash)) return true;
    if (!field.empty()) {
      HashField value;
      if (!HashReader(*found.entry, wall_ms()).get(field, value)) return true;
      fetched = {Fetched::Kind::kText, value.value.view(room_), nullptr};
    } else if (is_extent(found)) {
      if (!ctx_.on_worker) return outcome_ = Outcome::kNeedsWorker, false;
      const ExtentRef ref = found.entry->extent();
      on_disk_.push_back({ref, found.entry->extent_size(), ctx_.services.storage->extents().hold(ref)});
      fetched = {Fetched::Kind::kOnDisk, {}, &on_disk_.back()};
    } else if (found.entry->encoding() == Encoding::kInt) {
      fetched = {Fetched::Kind::kText, {room_, format_integer(found.entry->integer(), room_)}, nullptr};
    } else {
      fetched = {Fetched::Kind::kText, found.entry->bytes(), nullptr};
    }
    return true;
  }

  // Calls visit(item, fetched) -> bool for each item, in groups, so that cache misses overlap.
  template <typename Visit>
  bool look_up_each(const SortPattern& pattern, Visit&& visit) {
    constexpr size_t kGroup = 16;
    Keyspace& keyspace = *ctx_.services.keyspace;
    std::string names[kGroup];
    Key keys[kGroup];
    for (size_t from = 0; from < items_.size(); from += kGroup) {
      const size_t group = std::min(kGroup, items_.size() - from);
      for (size_t i = 0; i < group; ++i) {
        pattern.key_of(items_[from + i].element, names[i]);
        keys[i] = keyspace.key(names[i]);
        keyspace.prefetch_bucket(ctx_.session.database, keys[i].hash);
      }
      for (size_t i = 0; i < group; ++i) keyspace.prefetch_entry(ctx_.session.database, keys[i].hash);
      for (size_t i = 0; i < group; ++i) {
        Fetched fetched;
        if (!look_up(keys[i], pattern.field(), fetched) || !visit(items_[from + i], fetched)) return false;
      }
    }
    return true;
  }

  bool weigh(Item& item, std::string_view text) {
    if (request_.alpha) return item.weight_text = texts_.keep(text), true;
    const auto weight = sort_weight(text);
    if (!weight) return ctx_.reply.error("ERR One or more scores can't be converted into double"), false;
    item.weight = *weight;
    return true;
  }

  bool weigh() {
    if (!request_.sorts) return true;
    if (request_.by) {
      return look_up_each(*request_.by, [&](Item& item, const Fetched& fetched) {
        item.weightless = fetched.kind == Fetched::Kind::kNothing;
        item.weight_on_disk = fetched.on_disk;
        return item.weightless || item.weight_on_disk || weigh(item, fetched.text);
      });
    }
    return request_.alpha || std::all_of(items_.begin(), items_.end(), [&](Item& item) { return weigh(item, item.element); });
  }

  bool read_weights() {
    return std::all_of(items_.begin(), items_.end(), [&](Item& item) {
      if (!item.weight_on_disk) return true;
      const auto bytes = open(*item.weight_on_disk).bytes(ctx_);
      return bytes && weigh(item, *bytes);
    });
  }

  PendingValue open(const OnDisk& value) const { return PendingValue::open(ctx_, value.ref, value.size); }

  // Only the wanted items are left, in any order. Once.
  void select() {
    if (!request_.sorts || std::exchange(selected_, true)) return;
    const Order order(request_);
    if (end_ < items_.size()) {
      std::nth_element(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(end_), items_.end(), order);
      items_.resize(end_);
    }
    const auto first = items_.begin() + static_cast<ptrdiff_t>(begin_);
    if (first != items_.begin() && first != items_.end()) std::nth_element(items_.begin(), first, items_.end(), order);
    items_.erase(items_.begin(), first);
  }

  bool fetch() {
    const size_t gets = request_.gets.size();
    for (size_t i = 0; i < items_.size(); ++i) items_[i].fetched = i * gets;
    fetched_.resize(items_.size() * gets);
    for (size_t g = 0; g < gets; ++g) {
      if (!request_.gets[g].names_keys()) continue;
      const bool whole = look_up_each(request_.gets[g], [&](Item& item, Fetched fetched) {
        if (fetched.kind == Fetched::Kind::kText) fetched.text = texts_.keep(fetched.text);
        fetched_[item.fetched + g] = fetched;
        return true;
      });
      if (!whole) return false;
    }
    return true;
  }

  // Calls visit(fetched) -> bool for each value of the result, in order.
  template <typename Visit>
  bool each_value(Visit&& visit) const {
    for (const Item& item : items_) {
      const Fetched element{Fetched::Kind::kText, item.element, nullptr};
      if (request_.gets.empty() && !visit(element)) return false;
      for (size_t g = 0; g < request_.gets.size(); ++g) {
        const SortPattern& get = request_.gets[g];
        if (!visit(get.element() ? element : get.names_keys() ? fetched_[item.fetched + g] : Fetched{})) return false;
      }
    }
    return true;
  }

  int64_t values() const { return static_cast<int64_t>(items_.size() * std::max<size_t>(request_.gets.size(), 1)); }

  Outcome reply() {
    ctx_.reply.array(values());
    each_value([&](const Fetched& value) {
      switch (value.kind) {
        case Fetched::Kind::kNothing: ctx_.reply.nil(); break;
        case Fetched::Kind::kText: ctx_.reply.bulk(value.text); break;
        case Fetched::Kind::kOnDisk: open(*value.on_disk).reply(ctx_); break;
      }
      return true;
    });
    return Outcome::kDone;
  }

  Outcome store() {
    ListBuilder list;
    uint64_t bytes = 0;
    const bool built = each_value([&](const Fetched& value) {
      std::optional<std::string> read;
      if (value.kind == Fetched::Kind::kOnDisk && !(read = open(*value.on_disk).bytes(ctx_))) return false;
      const std::string_view text = read ? *read : value.text;
      // A list that no record can hold is not built first.
      bytes += text.size();
      if (bytes > kMaxRecordBytes && !admitted(ctx_, bytes)) return false;
      list.add(text);
      return true;
    });
    if (!built) return Outcome::kDone;
    if (!keys_) lock(false);
    const bool stored = keys_->replace(1, ValueType::kList, list.size() > 0 ? list.encoded() : std::string(), KeyEvent::kList, "sortstore");
    if (stored) ctx_.reply.integer(values());
    return Outcome::kDone;
  }

  CommandContext& ctx_;
  SortRequest request_;
  Outcome outcome_ = Outcome::kDone;  // when a step gave up
  uint64_t size_ = 0, begin_ = 0, end_ = 0;
  std::vector<Item> items_;
  std::vector<Fetched> fetched_;
  std::deque<OnDisk> on_disk_;
  bool selected_ = false;
  TextStore texts_;
  char room_[20];
  std::optional<TypedKeys> keys_;
};

Outcome sort_generic(CommandContext& ctx, bool may_store) {
  SortRequest request;
  if (!parse_sort(ctx, may_store, request)) return Outcome::kDone;
  return Sorting(ctx, std::move(request)).run();
}

Outcome sort_command(CommandContext& ctx) { return sort_generic(ctx, true); }
Outcome sort_ro_command(CommandContext& ctx) { return sort_generic(ctx, false); }

constexpr std::string_view kStatus = "differs: ALPHA compares bytes, whatever the locale; a sorted set keeps its encoding";

// Arity, flags, keys and documentation come from Redis' own table (redis_facts.cc).
constexpr CommandSpec kSortCommands[] = {
    {.name = "sort", .handler = sort_command, .status = kStatus},
    {.name = "sort_ro", .handler = sort_ro_command, .status = kStatus},
};

}  // namespace

std::span<const CommandSpec> sort_commands() { return kSortCommands; }

}  // namespace pion
