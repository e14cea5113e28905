#include "server/payload_target.h"

#include <utility>

#include "command/payload.h"
#include "command/table.h"
#include "prompt/store.h"

namespace pion {
namespace {

// After an error the bytes are only read off; the command answers the error.
class ExtentSink final : public PayloadSink {
 public:
  ExtentSink(Result<std::unique_ptr<ExtentWriter>> writer, std::shared_ptr<StreamRoom> room) : payload_(std::make_shared<ExtentPayload>()) {
    payload_->room = std::move(room);
    if (writer) {
      payload_->writer = std::move(*writer);
    } else {
      payload_->error = writer.error();
    }
  }

  void append(std::string_view piece) override {
    if (!payload_->writer) return;
    if (Status status = payload_->writer->append(piece); !status) {
      payload_->error = status.error();
      payload_->writer.reset();
    }
  }

  std::shared_ptr<StreamedPayload> finish() override { return std::move(payload_); }

 private:
  std::shared_ptr<ExtentPayload> payload_;
};

// The spec that decides: a container's stream rule does not exist, its subcommand's does.
const CommandSpec* spec_of(const Arguments& before) {
  const CommandSpec* spec = find_command(before[0].bytes);
  if (spec && !spec->subcommands.empty() && before.size() > 1) spec = find_subcommand(*spec, before[1].bytes);
  return spec;
}

}  // namespace

std::unique_ptr<PayloadSink> PayloadTarget::open(const Arguments& before, uint64_t length) {
  if (before.empty()) return nullptr;
  const CommandSpec* spec = spec_of(before);
  if (!spec || !spec->stream_rule) return nullptr;
  const CommandSpec::StreamRule rule = spec->stream_rule(before, before.size());
  if (!rule.stream) return nullptr;
  const auto space = static_cast<Space>(rule.space);
  std::shared_ptr<StreamRoom> room;
  if (space == Space::kPrompt && services_ && services_->prompt) {
    // The budget is a ceiling for what is on its way too. No room: held in memory, and the PUT evicts before it writes.
    room = services_->prompt->stream_room(uint64_t{ExtentStore::pages_for(length, rule.aux_bytes)} * kPageBytes);
    if (!room) return nullptr;
  }
  return std::make_unique<ExtentSink>(extents_.create(space, length, rule.aux_bytes), std::move(room));
}

}  // namespace pion
