#include "command/set_sources.h"

#include "keyspace/value_types.h"

namespace pion {

bool SetSources::look(KeyAccess::Lookup lookup) {
  access_.emplace(*ctx_.services.keyspace, keys_);
  if (ctx_.session.no_touch) access_->no_touch();
  holds_ = true;
  for (size_t i = 0; i < sources_.size(); ++i) {
    Source& source = sources_[i];
    source = {};
    const Found found = access_->find(ctx_.session.database, keys_[first_ + i], lookup);
    if (!found) continue;
    if (found.entry->type() != ValueType::kSet) {
      count_lookups(i);
      access_->count_lookup(ctx_.session.database, keys_[first_ + i], true);
      unlock();
      ctx_.reply.error(kWrongType);
      return false;
    }
    source.exists = true;
    source.says_intset = kSetOps.encoding_name(*found.entry) == "intset";
    source.reader.emplace(*found.entry);
    source.size = source.reader->size();
  }
  return true;
}

void SetSources::count_lookups(size_t count) {
  for (size_t i = 0; i < count; ++i) access_->count_lookup(ctx_.session.database, keys_[first_ + i], sources_[i].exists);
}

void SetSources::let_go() {
  for (Source& source : sources_) {
    if (!source.exists) continue;
    if (SetTable* table = source.reader->table()) {
      source.table = table;
      source.log = table->start_log();
      source.reader.reset();
    } else {
      source.copy = source.reader->packed();
      source.reader.emplace(std::string_view(source.copy));
    }
  }
  holds_ = false;
  unlock();
}

bool SetSources::contains(size_t i, const ShortText& member) const {
  const Source& source = sources_[i];
  if (!source.exists) return false;
  char room[20];
  const std::string_view text = member.view(room);
  if (!source.table) return source.reader->contains(text);
  return source.log->was_member(text, source.table->contains(text));
}

bool SetSources::lock_tables() {
  KeyAccess& access = lock();
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    if (!source.table) continue;
    const Found found = access.find_again(ctx_.session.database, keys_[first_ + i]);
    const bool same = found && found.entry->type() == ValueType::kSet && SetReader(*found.entry).table() == source.table &&
                      source.table->logs_to(*source.log);
    if (same) continue;
    unlock();
    return false;
  }
  return true;
}

KeyAccess& SetSources::lock() {
  if (!access_) access_.emplace(*ctx_.services.keyspace, keys_);
  return *access_;
}

void SetSources::unlock() {
  if (access_) ctx_.require_lsn(access_->finish());
  access_.reset();
}

}  // namespace pion
