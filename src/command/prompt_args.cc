#include "command/prompt_args.h"

#include <algorithm>
#include <charconv>

#include "base/limits.h"
#include "command/arguments.h"

namespace pion {
namespace {

class PromptAttachment : public SessionAttachment {
 public:
  PromptAttachment(PromptStore& store, uint64_t id) : store_(store), client(std::make_shared<PromptClient>(id)) {}
  ~PromptAttachment() override { store_.disconnect(client); }

 private:
  PromptStore& store_;

 public:
  const std::shared_ptr<PromptClient> client;
};

std::string_view word_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kInvalid: return "ERR";
    case FaultKind::kNoModel: return "NOMODEL";
    case FaultKind::kMismatch: return "MISMATCH";
    case FaultKind::kNoLease: return "NOLEASE";
    case FaultKind::kRevoked: return "REVOKED";
    case FaultKind::kGap: return "GAP";
    case FaultKind::kNoRoom: return "OOM";
    case FaultKind::kDisk: return "MISCONF";
    case FaultKind::kCorrupt: return "CORRUPT";
  }
  return "ERR";
}

}  // namespace

std::shared_ptr<PromptClient> prompt_client(CommandContext& context) {
  if (!context.session.prompt) context.session.prompt = std::make_unique<PromptAttachment>(*context.services.prompt, context.session.id);
  return static_cast<PromptAttachment&>(*context.session.prompt).client;
}

std::string prompt_error(const PromptFault& fault) { return std::string(word_of(fault.kind)) + " " + fault.text; }

Outcome prompt_failure(CommandContext& context, const PromptFault& fault) {
  // What an error shows (a gap, a name in use) rests on records too.
  context.require_lsn(context.services.prompt->last_lsn());
  context.reply.error(prompt_error(fault));
  return Outcome::kDone;
}

bool OptionReader::word(std::string_view name, Times times) {
  if (done() || !same_word(context_.arg(at_), name)) return false;
  ++at_;
  if (times == Times::kOnce && std::find(seen_.begin(), seen_.end(), name) != seen_.end()) fail("ERR " + std::string(name) + " was given twice");
  seen_.push_back(name);
  return true;
}

bool OptionReader::missing(std::string_view what) {
  if (!error_.empty()) return true;
  if (at_ < context_.argc()) return false;
  fail("ERR " + std::string(what) + " is missing at the end");
  return true;
}

std::string_view OptionReader::text(std::string_view what, size_t max_bytes) {
  if (missing(what)) return {};
  const std::string_view value = context_.arg(at_++);
  if (value.size() > max_bytes) fail("ERR " + std::string(what) + " is longer than " + std::to_string(max_bytes) + " bytes");
  return value;
}

int64_t OptionReader::integer(std::string_view what, int64_t low, int64_t high) {
  if (missing(what)) return low;
  const auto value = integer_argument(context_.arg(at_++));
  if (!value || *value < low || *value > high) {
    fail("ERR " + std::string(what) + " must be an integer between " + std::to_string(low) + " and " + std::to_string(high));
    return low;
  }
  return *value;
}

double OptionReader::number(std::string_view what) {
  if (missing(what)) return 0;
  const std::string_view text = context_.arg(at_++);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) fail("ERR " + std::string(what) + " must be a number");
  return value;
}

MediaItem OptionReader::media() {
  MediaItem item;
  item.position = static_cast<uint32_t>(integer("MEDIA position", 0, static_cast<int64_t>(kMaxTokens)));
  item.length = static_cast<uint32_t>(integer("MEDIA length", 1, static_cast<int64_t>(kMaxTokens)));
  item.digest = text("MEDIA digest", kMaxDigestBytes);
  if (error_.empty() && item.digest.empty()) fail("ERR MEDIA digest is empty");
  return item;
}

void OptionReader::unknown() {
  if (!error_.empty()) return;
  std::string shown;
  for (char c : context_.arg(at_).substr(0, 32)) shown.push_back(c >= ' ' && c <= '~' ? c : '.');
  fail("ERR unknown option '" + shown + "'");
}

}  // namespace pion
