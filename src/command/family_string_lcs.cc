// LCS: the longest common subsequence of two strings, by the table of dynamic programming.
#include <vector>

#include "base/limits.h"
#include "command/arguments.h"
#include "command/family_string.h"
#include "command/string_value.h"

namespace pion {
namespace {

constexpr uint64_t kCellsOnReactor = 64 * 1024;  // more cells than this are a worker's job

struct LcsOptions {
  bool length_only = false, indexes = false, with_lengths = false;
  int64_t least_length = 0;
};

// A common run: inclusive positions in both strings.
struct Match {
  size_t a_first, a_last, b_first, b_last;
};

class LcsTable {
 public:
  LcsTable(std::string_view a, std::string_view b) : a_(a), b_(b), cells_((a.size() + 1) * (b.size() + 1)) {
    for (size_t i = 1; i <= a.size(); ++i) {
      for (size_t j = 1; j <= b.size(); ++j) {
        at(i, j) = a[i - 1] == b[j - 1] ? at(i - 1, j - 1) + 1 : std::max(at(i - 1, j), at(i, j - 1));
      }
    }
  }

  uint32_t length() { return at(a_.size(), b_.size()); }

  // Walks back from the end; gives the subsequence and, last first, the runs it is made of.
  void walk(std::string& sequence, std::vector<Match>& matches) {
    sequence.assign(length(), '\0');
    size_t i = a_.size(), j = b_.size(), left = length();
    bool open = false;
    Match run{};
    const auto close = [&] {
      if (open) matches.push_back(run);
      open = false;
    };
    while (i > 0 && j > 0) {
      if (a_[i - 1] == b_[j - 1]) {
        --i, --j;
        sequence[--left] = a_[i];
        if (open && run.a_first == i + 1 && run.b_first == j + 1) {
          run.a_first = i;
          run.b_first = j;
        } else {
          close();
          open = true;
          run = {i, i, j, j};
        }
      } else {
        at(i - 1, j) > at(i, j - 1) ? --i : --j;
        close();
      }
    }
    close();
  }

 private:
  uint32_t& at(size_t i, size_t j) { return cells_[i * (b_.size() + 1) + j]; }

  std::string_view a_, b_;
  std::vector<uint32_t> cells_;
};

// False: the error was answered.
bool parse_options(CommandContext& ctx, LcsOptions& options) {
  for (size_t i = 3; i < ctx.argc(); ++i) {
    const std::string_view word = ctx.arg(i);
    if (same_word(word, "IDX")) {
      options.indexes = true;
    } else if (same_word(word, "LEN")) {
      options.length_only = true;
    } else if (same_word(word, "WITHMATCHLEN")) {
      options.with_lengths = true;
    } else if (same_word(word, "MINMATCHLEN") && i + 1 < ctx.argc()) {
      const auto number = integer_argument(ctx.arg(++i));
      if (!number) return ctx.reply.error(kNotAnInteger), false;
      options.least_length = std::max<int64_t>(0, *number);
    } else {
      return ctx.reply.error(kSyntaxError), false;
    }
  }
  if (options.indexes && options.length_only) {
    return ctx.reply.error("ERR If you want both the length and indexes, please just use IDX."), false;
  }
  return true;
}

void reply_indexes(ReplyWriter& reply, const LcsOptions& options, const std::vector<Match>& matches, uint32_t length) {
  std::vector<Match> shown;
  for (const Match& match : matches) {
    if (static_cast<int64_t>(match.a_last - match.a_first + 1) >= options.least_length) shown.push_back(match);
  }
  reply.map(2);
  reply.bulk("matches");
  reply.array(static_cast<int64_t>(shown.size()));
  for (const Match& match : shown) {
    reply.array(options.with_lengths ? 3 : 2);
    reply.array(2);
    reply.integer(static_cast<int64_t>(match.a_first));
    reply.integer(static_cast<int64_t>(match.a_last));
    reply.array(2);
    reply.integer(static_cast<int64_t>(match.b_first));
    reply.integer(static_cast<int64_t>(match.b_last));
    if (options.with_lengths) reply.integer(static_cast<int64_t>(match.a_last - match.a_first + 1));
  }
  reply.bulk("len");
  reply.integer(length);
}

}  // namespace

Outcome lcs_command(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const Key keys[] = {keyspace.key(ctx.arg(1)), keyspace.key(ctx.arg(2))};
  std::optional<PendingValue> values[2];
  {
    KeyAccess access(keyspace, keys);
    uint64_t cells = 1;
    bool wrong_type = false;
    for (size_t i = 0; i < 2; ++i) {
      const Found found = access.find(ctx.session.database, keys[i]);
      if (!found) continue;
      wrong_type = wrong_type || found.entry->type() != ValueType::kString;
      if (wrong_type) continue;
      if (is_extent(found) && !ctx.on_worker) return Outcome::kNeedsWorker;
      cells *= string_size(*found.entry) + 1;
      values[i] = PendingValue::open(ctx, *found.entry);
    }
    if (wrong_type) {
      ctx.require_lsn(access.finish());
      ctx.reply.error("ERR The specified keys must contain string values");
      return Outcome::kDone;
    }
    if (cells > kCellsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
    ctx.require_lsn(access.finish());
  }
  LcsOptions options;
  if (!parse_options(ctx, options)) return Outcome::kDone;
  std::string strings[2];
  for (size_t i = 0; i < 2; ++i) {
    if (!values[i]) continue;
    auto bytes = values[i]->bytes(ctx);
    if (!bytes) return Outcome::kDone;
    strings[i] = std::move(*bytes);
  }
  if ((strings[0].size() + 1) * (strings[1].size() + 1) * sizeof(uint32_t) > kMaxBulkBytes) {
    ctx.reply.error("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
    return Outcome::kDone;
  }
  LcsTable table(strings[0], strings[1]);
  if (options.length_only) {
    ctx.reply.integer(table.length());
    return Outcome::kDone;
  }
  std::string sequence;
  std::vector<Match> matches;
  table.walk(sequence, matches);
  if (options.indexes) {
    reply_indexes(ctx.reply, options, matches, table.length());
  } else {
    ctx.reply.bulk(sequence);
  }
  return Outcome::kDone;
}

}  // namespace pion
