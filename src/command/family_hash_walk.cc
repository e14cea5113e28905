// HGETALL HKEYS HVALS HRANDFIELD HSCAN: many fields at a time.
#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "command/arguments.h"
#include "command/collection.h"
#include "command/family_hash.h"
#include "keyspace/hash_value.h"
#include "keyspace/random.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;

void reply_text(ReplyWriter& reply, const ShortText& text) {
  char room[20];
  reply.bulk(text.view(room));
}

uint64_t alive_fields(const HashReader& reader, const Entry& entry, int64_t now_ms) {
  if (next_element_due(entry) >= now_ms) return reader.size();
  uint64_t alive = 0;
  reader.each([&](const HashField&) { return ++alive, true; });
  return alive;
}

Outcome reply_all(CommandContext& ctx, bool names, bool values) {
  const TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kRead);
  if (!hash) return Outcome::kDone;
  const auto header = [&](uint64_t fields) {
    names && values ? ctx.reply.map(static_cast<int64_t>(fields)) : ctx.reply.array(static_cast<int64_t>(fields));
  };
  if (!hash.exists()) return header(0), Outcome::kDone;
  const int64_t now = wall_ms();
  const HashReader reader(hash.entry(), now);
  if (reader.size() > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  header(alive_fields(reader, hash.entry(), now));
  reader.each([&](const HashField& field) {
    if (names) reply_text(ctx.reply, field.name);
    if (values) reply_text(ctx.reply, field.value);
    return true;
  });
  return Outcome::kDone;
}

void reply_field(CommandContext& ctx, const HashField& field, bool with_value) {
  if (with_value && ctx.reply.protocol() > 2) ctx.reply.array(2);
  reply_text(ctx.reply, field.name);
  if (with_value) reply_text(ctx.reply, field.value);
}

// Distinct fields, `count` of them or all.
void reply_distinct(CommandContext& ctx, const HashReader& reader, uint64_t alive, uint64_t count, bool with_values) {
  const uint64_t chosen = std::min(alive, count);
  const bool flat_pairs = with_values && ctx.reply.protocol() < 3;
  ctx.reply.array(static_cast<int64_t>(flat_pairs ? 2 * chosen : chosen));
  if (chosen == alive) {
    reader.each([&](const HashField& field) { return reply_field(ctx, field, with_values), true; });
    return;
  }
  if (!reader.small() && chosen * 3 < alive) {
    // Few of many: drawn until there are enough different ones. A field's place in memory tells it from the others.
    std::vector<const char*> seen;
    while (seen.size() < chosen) {
      const HashField field = reader.random();
      const auto place = std::lower_bound(seen.begin(), seen.end(), field.name.bytes.data());
      if (place != seen.end() && *place == field.name.bytes.data()) continue;
      seen.insert(place, field.name.bytes.data());
      reply_field(ctx, field, with_values);
    }
    return;
  }
  // One walk that takes each field with the chance that is left for it.
  uint64_t left = alive, wanted = chosen;
  reader.each([&](const HashField& field) {
    if (random64() % left < wanted) {
      --wanted;
      reply_field(ctx, field, with_values);
    }
    return --left > 0 && wanted > 0;
  });
}

void reply_repeated(CommandContext& ctx, const HashReader& reader, uint64_t count, bool with_values) {
  const bool flat_pairs = with_values && ctx.reply.protocol() < 3;
  ctx.reply.array(static_cast<int64_t>(flat_pairs ? 2 * count : count));
  if (!reader.small()) {
    for (uint64_t i = 0; i < count; ++i) reply_field(ctx, reader.random(), with_values);
    return;
  }
  std::vector<HashField> fields;
  reader.each([&](const HashField& field) { return fields.push_back(field), true; });
  for (uint64_t i = 0; i < count; ++i) reply_field(ctx, fields[random64() % fields.size()], with_values);
}

}  // namespace

Outcome hgetall_command(CommandContext& ctx) { return reply_all(ctx, true, true); }
Outcome hkeys_command(CommandContext& ctx) { return reply_all(ctx, true, false); }
Outcome hvals_command(CommandContext& ctx) { return reply_all(ctx, false, true); }

Outcome hrandfield_command(CommandContext& ctx) {
  int64_t count = 1;
  bool with_values = false;
  if (ctx.argc() >= 3) {
    if (!range_argument(ctx, 2, -INT64_MAX, INT64_MAX, count)) return Outcome::kDone;
    if (ctx.argc() > 4 || (ctx.argc() == 4 && !same_word(ctx.arg(3), "WITHVALUES"))) return ctx.reply.error(kSyntaxError), Outcome::kDone;
    with_values = ctx.argc() == 4;
    if (count < -kMaxRandomRepeats || (with_values && count > INT64_MAX / 2)) return ctx.reply.error("ERR value is out of range"), Outcome::kDone;
  }
  const TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kRead);
  if (!hash) return Outcome::kDone;
  const int64_t now = wall_ms();
  const bool one = ctx.argc() == 2;
  const HashReader* reader = nullptr;
  std::optional<HashReader> made;
  uint64_t alive = 0;
  if (hash.exists()) {
    made.emplace(hash.entry(), now);
    reader = &*made;
    const uint64_t work = std::max<uint64_t>(count < 0 ? static_cast<uint64_t>(-count) : 0, one ? 0 : reader->size());
    if (work > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
    alive = alive_fields(*reader, hash.entry(), now);
  }
  if (one) {
    alive > 0 ? reply_text(ctx.reply, reader->random().name) : ctx.reply.nil();
  } else if (alive == 0 || count == 0) {
    ctx.reply.array(0);
  } else if (count > 0) {
    reply_distinct(ctx, *reader, alive, static_cast<uint64_t>(count), with_values);
  } else {
    reply_repeated(ctx, *reader, static_cast<uint64_t>(-count), with_values);
  }
  return Outcome::kDone;
}

Outcome hscan_command(CommandContext& ctx) {
  ElementScan scan;
  if (!parse_scan_cursor(ctx, scan)) return Outcome::kDone;
  const TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kRead);
  if (!hash) return Outcome::kDone;
  if (hash.exists() && !parse_scan_options(ctx, true, scan)) return Outcome::kDone;
  std::vector<HashField> fields;
  uint64_t position = 0;
  if (hash.exists()) {
    const HashReader reader(hash.entry(), wall_ms());
    if (scan.count > kElementsOnReactor && reader.size() > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
    position = scan.walk([&](uint64_t at, uint64_t& looked) {
      return reader.scan(at, [&](const HashField& field) {
        ++looked;
        if (scan.matches(field.name)) fields.push_back(field);
      });
    });
  }
  ctx.reply.array(2);
  ctx.reply.bulk(std::to_string(position));
  ctx.reply.array(static_cast<int64_t>(scan.no_values ? fields.size() : 2 * fields.size()));
  for (const HashField& field : fields) {
    reply_text(ctx.reply, field.name);
    if (!scan.no_values) reply_text(ctx.reply, field.value);
  }
  return Outcome::kDone;
}

}  // namespace pion
