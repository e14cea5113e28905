// XREAD XREADGROUP.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "command/arguments.h"
#include "command/blocking.h"
#include "command/family_stream.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;
using Op = StreamDelta::Op;

constexpr uint64_t kPendingRecordBytes = 24;

// What a read command asks for.
struct StreamRead {
  bool grouped = false;  // XREADGROUP
  bool no_ack = false;
  std::string group, consumer;
  uint64_t count = 0;    // 0: all
  std::optional<int64_t> block_ms;  // 0: for ever
  size_t ids_at = 0;                // position of the first id
  std::vector<std::string> keys;
  std::vector<std::string> after;  // "0-1", "$", "+", ">": as given
  // After the first look: the id behind which to read. StreamId::last() in a group: what nobody was given yet.
  std::vector<StreamId> ids;
};

// False: the error was answered.
bool parse_read(CommandContext& ctx, StreamRead& read) {
  bool grouped = false;
  size_t streams_at = 0;
  for (size_t i = 1; i < ctx.argc(); ++i) {
    const std::string_view word = ctx.arg(i);
    const size_t more = ctx.argc() - i - 1;
    int64_t number = 0;
    if (more >= 1 && same_word(word, "BLOCK")) {
      read.block_ms = timeout_argument(ctx, ++i, TimeUnit::kMilliseconds);
      if (!read.block_ms) return false;
    } else if (more >= 1 && same_word(word, "COUNT")) {
      if (!number_argument(ctx, ++i, number)) return false;
      read.count = static_cast<uint64_t>(std::max<int64_t>(number, 0));
    } else if (more >= 1 && same_word(word, "STREAMS")) {
      streams_at = i + 1;
      break;
    } else if (more >= 2 && same_word(word, "GROUP")) {
      if (!read.grouped) {
        return ctx.reply.error("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."), false;
      }
      grouped = true;
      read.group = ctx.arg(++i);
      read.consumer = ctx.arg(++i);
    } else if (same_word(word, "NOACK")) {
      if (!read.grouped) {
        return ctx.reply.error("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."), false;
      }
      read.no_ack = true;
    } else {
      return ctx.reply.error(kSyntaxError), false;
    }
  }
  const size_t words = streams_at == 0 ? 0 : ctx.argc() - streams_at;
  if (words % 2 != 0) {
    std::string text("ERR Unbalanced '");
    text.append(ctx.spec.name).append("' list of streams: for each stream key an ID");
    ctx.reply.error(text.append(read.grouped ? " or '>' must be specified." : ", '+', or '$' must be specified."));
    return false;
  }
  if (streams_at == 0) return ctx.reply.error(kSyntaxError), false;
  if (read.grouped && !grouped) return ctx.reply.error("ERR Missing GROUP option for XREADGROUP"), false;
  read.ids_at = streams_at + words / 2;
  for (size_t i = 0; i < words / 2; ++i) {
    read.keys.emplace_back(ctx.arg(streams_at + i));
    read.after.emplace_back(ctx.arg(streams_at + words / 2 + i));
  }
  return true;
}

// An entry to be answered, or in a consumer's history one that is gone.
struct Answered {
  StreamId id;
  StreamEntry entry;
  bool there = true;
};

// The streams of one command, locked; the entries that it answers.
class StreamReader {
 public:
  StreamReader(CommandContext& ctx, StreamRead& read) : ctx_(ctx), read_(read), database_(ctx.session.database) {
    for (const std::string& key : read.keys) keys_.push_back(ctx.services.keyspace->key(key));
    keys_.size() == 1 ? access_.emplace(*ctx.services.keyspace, keys_[0]) : access_.emplace(*ctx.services.keyspace, std::span<const Key>(keys_));
    if (ctx.session.no_touch) access_->no_touch();
    for (const Key& key : keys_) found_.push_back(access_->find(database_, key, Lookup::kWrite));
  }
  ~StreamReader() { ctx_.require_lsn(access_->finish()); }
  StreamReader(const StreamReader&) = delete;
  StreamReader& operator=(const StreamReader&) = delete;

  // Checks keys and groups, and makes ids of `after`. False: the error was answered.
  bool resolve() {
    read_.ids.resize(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) {
      resolved_ = i + 1;
      if (found_[i] && found_[i].entry->type() != ValueType::kStream) return ctx_.reply.error(kWrongType), false;
      if (read_.grouped && (!found_[i] || !stream(i).group(read_.group))) {
        return reply_no_group(ctx_, read_.keys[i], read_.group, " in XREADGROUP with GROUP option"), false;
      }
      if (!resolve_id(i)) return false;
    }
    return true;
  }

  // Hits and misses as Redis counts them: a look for each id that was resolved, and one for each stream that is read.
  void count_resolved() {
    for (size_t i = 0; i < resolved_; ++i) access_->count_lookup(database_, keys_[i], static_cast<bool>(found_[i]));
  }

  // More than a reactor should do?
  bool is_long() const {
    uint64_t work = 0;
    for (size_t i = 0; i < keys_.size(); ++i) work += entries_to_answer(i, kElementsOnReactor + 1);
    return work > kElementsOnReactor;
  }

  // Collects what there is to answer, and in a group delivers it. False: the error was answered.
  bool collect() {
    if (read_.grouped && !admit_deliveries()) return false;
    answers_.resize(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) {
      access_->count_lookup(database_, keys_[i], static_cast<bool>(found_[i]));
      if (!found_[i]) continue;
      if (!read_.grouped) {
        collect_after(i, read_.ids[i]);
      } else if (read_.ids[i] == StreamId::last()) {
        deliver_new(i);
      } else {
        deliver_again(i);
      }
    }
    return true;
  }

  // Did others come before, who wait for what a group has to give?
  bool must_queue_here() {
    if (!read_.grouped || !read_.block_ms) return false;
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (read_.ids[i] != StreamId::last()) return false;  // a history is there at once
    }
    return std::any_of(keys_.begin(), keys_.end(), [&](const Key& key) { return must_queue(ctx_, *access_, key); });
  }

  // Nothing is there: waits if that was asked for.
  Outcome wait() {
    if (!read_.block_ms) return ctx_.reply.nil_array(), Outcome::kDone;
    // When the command runs again, "$" must still mean the last id of now.
    std::vector<std::string_view> as_sent;
    std::vector<std::string> ids(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) {
      std::string_view& word = ctx_.args[read_.ids_at + i].bytes;
      as_sent.push_back(word);
      char room[StreamId::kTextBytes];
      ids[i] = read_.ids[i].text(room);
      if (word == "$") word = ids[i];
    }
    const Outcome outcome = wait_for_keys(ctx_, *access_, keys_, {.type = ValueType::kStream, .gone_too = read_.grouped, .timeout_ms = *read_.block_ms});
    for (size_t i = 0; i < keys_.size(); ++i) ctx_.args[read_.ids_at + i].bytes = as_sent[i];
    return outcome;
  }

  bool anything() const {
    return std::any_of(answers_.begin(), answers_.end(), [](const auto& answer) { return answer.has_value(); });
  }

  void reply(ReplyWriter& reply) const {
    const auto served = std::count_if(answers_.begin(), answers_.end(), [](const auto& answer) { return answer.has_value(); });
    reply.protocol() > 2 ? reply.map(served) : reply.array(served);
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (!answers_[i]) continue;
      if (reply.protocol() < 3) reply.array(2);
      reply.bulk(read_.keys[i]);
      reply.array(static_cast<int64_t>(answers_[i]->size()));
      for (const Answered& answered : *answers_[i]) {
        if (answered.there) {
          reply_stream_entry(reply, answered.entry);
        } else {
          reply.array(2);
          reply_stream_id(reply, answered.id);
          reply.nil_array();
        }
      }
    }
  }

 private:
  Stream& stream(size_t i) const { return stream_of(*found_[i].entry); }

  bool resolve_id(size_t i) {
    const std::string_view text = read_.after[i];
    StreamId& id = read_.ids[i];
    if ((text == "$" || text == "+") && read_.grouped) {
      std::string error("ERR The ");
      error.append(text).append(" ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by "
                                "specifying a proper ID, or use the > ID to get new messages. The ");
      return ctx_.reply.error(error.append(text).append(" ID would just return an empty result set.")), false;
    }
    if (text == "$") {
      if (found_[i]) id = stream(i).last_id;
      return true;
    }
    if (text == "+") {
      if (!found_[i]) return true;
      id = stream(i).last_id;
      if (stream(i).size() > 0) id = stream(i).last_entry_id(), id.decrement();
      return true;
    }
    if (text == ">") {
      id = StreamId::last();
      if (read_.grouped) return true;
      ctx_.reply.error("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.");
      return false;
    }
    const auto parsed = parse_stream_id(text, 0);
    if (!parsed) return ctx_.reply.error(kBadStreamId), false;
    id = *parsed;
    return true;
  }

  // At most; not counted beyond `enough`.
  uint64_t entries_to_answer(size_t i, uint64_t enough) const {
    if (!found_[i]) return 0;
    if (read_.count != 0) enough = std::min(enough, read_.count);
    if (!read_.grouped) return stream(i).entries_between(read_.ids[i], StreamId::last(), enough);
    const StreamGroup& group = *stream(i).group(read_.group);
    if (read_.ids[i] == StreamId::last()) return stream(i).entries_between(group.last_id, StreamId::last(), enough);
    const StreamConsumer* consumer = group.consumer(read_.consumer);
    return consumer ? std::min(consumer->pending.size(), enough) : 0;
  }

  bool admit_deliveries() {
    uint64_t bytes = 0;
    for (size_t i = 0; i < keys_.size(); ++i) {
      bytes += entries_to_answer(i, UINT64_MAX) * kPendingRecordBytes + 3 * (keys_[i].bytes.size() + read_.group.size() + read_.consumer.size() + 80);
    }
    return admitted(ctx_, bytes);
  }

  void collect_after(size_t i, StreamId after) {
    if (stream(i).size() == 0 || stream(i).last_entry_id() <= after) return;
    after.increment();
    auto& answer = answers_[i].emplace();
    stream(i).each(after, StreamId::last(), [&](const StreamEntry& entry) {
      answer.push_back({entry.id, entry});
      return answer.size() != read_.count;
    });
  }

  void change(size_t i, std::string_view delta) { found_[i] = access_->change(database_, keys_[i], found_[i], ValueType::kStream, delta); }

  void see_consumer(size_t i, bool active) {
    const StreamConsumer* consumer = stream(i).group(read_.group)->consumer(read_.consumer);
    const int64_t now = wall_ms();
    StreamDelta(delta_of_thread(), Op::kSetConsumer)
        .bytes(read_.group)
        .bytes(read_.consumer)
        .time(now)
        .time(active ? now : consumer ? StreamDelta::kAsItIs : -1);
    change(i, delta_of_thread());
    if (!consumer) access_->event(KeyEvent::kStream, "xgroup-createconsumer", database_, keys_[i]);
  }

  // ">": what no consumer of the group was given yet.
  void deliver_new(size_t i) {
    const StreamGroup& group = *stream(i).group(read_.group);
    collect_after(i, group.last_id);
    if (ctx_.retrying() && !answers_[i]) return;  // it was seen when it began to wait
    see_consumer(i, answers_[i].has_value() && !read_.no_ack);
    if (!answers_[i]) return;
    StreamId last = group.last_id;
    int64_t entries_read = group.entries_read;
    for (const Answered& answered : *answers_[i]) {
      if (stream(i).counts_on(entries_read, last)) {
        ++entries_read;
      } else if (stream(i).entries_added > 0) {
        entries_read = stream(i).entries_up_to(answered.id);
      }
      last = answered.id;
    }
    std::string& delta = delta_of_thread();
    StreamDelta(delta, Op::kAdvance).bytes(read_.group).id(last).varint(static_cast<uint64_t>(entries_read) + 1);
    change(i, delta);
    if (read_.no_ack) return;
    StreamDelta delivered(delta, Op::kDeliver);
    delivered.bytes(read_.group).bytes(read_.consumer).time(wall_ms());
    for (const Answered& answered : *answers_[i]) delivered.id(answered.id);
    change(i, delta);
  }

  // The consumer's own pending entries once more.
  void deliver_again(size_t i) {
    see_consumer(i, false);
    auto& answer = answers_[i].emplace();
    StreamId from = read_.ids[i];
    from.increment();
    const StreamGroup& group = *stream(i).group(read_.group);
    std::string& delta = delta_of_thread();
    StreamDelta again(delta, Op::kClaim);
    again.bytes(read_.group).bytes(read_.consumer).time(wall_ms());
    bool any = false;
    group.consumer(read_.consumer)->pending.each(from, [&](const StreamId& id) {
      Answered answered{id, {}, true};
      answered.there = stream(i).find(id, answered.entry);
      if (answered.there) again.id(id).varint(group.pending.find(id)->deliveries + 1), any = true;
      answer.push_back(answered);
      return answer.size() != read_.count;
    });
    if (any) change(i, delta);
  }

  CommandContext& ctx_;
  StreamRead& read_;
  const int database_;
  std::vector<Key> keys_;
  std::optional<KeyAccess> access_;
  std::vector<Found> found_;
  size_t resolved_ = 0;  // keys whose ids were looked at
  std::vector<std::optional<std::vector<Answered>>> answers_;
};

Outcome read_streams(CommandContext& ctx, bool grouped) {
  StreamRead read;
  read.grouped = grouped;
  if (!parse_read(ctx, read)) return Outcome::kDone;
  StreamReader reader(ctx, read);
  const bool valid = reader.resolve();
  if (valid && reader.is_long() && !ctx.on_worker) return Outcome::kNeedsWorker;
  reader.count_resolved();
  if (!valid) return Outcome::kDone;
  if (reader.must_queue_here()) return reader.wait();
  if (!reader.collect()) return Outcome::kDone;
  return reader.anything() ? (reader.reply(ctx.reply), Outcome::kDone) : reader.wait();
}

}  // namespace

Outcome xread_command(CommandContext& ctx) { return read_streams(ctx, false); }
Outcome xreadgroup_command(CommandContext& ctx) { return read_streams(ctx, true); }

}  // namespace pion
