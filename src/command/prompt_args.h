// What the PROMPT.* handlers share: options, the connection's client, error words.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command/context.h"
#include "command/table.h"
#include "prompt/store.h"

namespace pion {

// The connection's leases and claims end with this.
std::shared_ptr<PromptClient> prompt_client(CommandContext& context);

// "GAP stored up to 12": the fault's word, then its sentence.
std::string prompt_error(const PromptFault& fault);
Outcome prompt_failure(CommandContext& context, const PromptFault& fault);

// Options that follow the fixed arguments, read one after the other. A failed read leaves error() and the handler answers it.
class OptionReader {
 public:
  OptionReader(const CommandContext& context, size_t first) : context_(context), at_(first) {}

  bool done() const { return !error_.empty() || at_ >= context_.argc(); }
  // True, and steps over it, when the next argument is this word. Only `many` may be given more than once: which of two salts
  // was meant is not ours to guess.
  enum class Times { kOnce, kMany };
  bool word(std::string_view name, Times times = Times::kOnce);
  std::string_view text(std::string_view what, size_t max_bytes);
  int64_t integer(std::string_view what, int64_t low, int64_t high);
  double number(std::string_view what);
  MediaItem media();
  void go_to(size_t at) { at_ = at; }
  const std::string& error() const { return error_; }
  void fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }
  void unknown();  // no option of the command

 private:
  bool missing(std::string_view what);

  const CommandContext& context_;
  size_t at_;
  std::vector<std::string_view> seen_;
  std::string error_;
};

// Handlers, by file.
Outcome prompt_match(CommandContext& context);
Outcome prompt_read(CommandContext& context);
Outcome prompt_locate(CommandContext& context);
Outcome prompt_attach(CommandContext& context);
Outcome prompt_release(CommandContext& context);
Outcome prompt_put(CommandContext& context);
CommandSpec::StreamRule prompt_put_stream(const Arguments& before, size_t position);

}  // namespace pion
