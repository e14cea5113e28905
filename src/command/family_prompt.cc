// PROMPT.* and PION.STATS: the table, and the handlers that are not about one lease or one PUT (prompt_match.cc, prompt_read.cc,
// prompt_put.cc). The exact contract: docs/prompt-memory.md.
#include <cmath>

#include "base/limits.h"
#include "command/arguments.h"
#include "command/families.h"
#include "command/prompt_args.h"

namespace pion {
namespace {

using Forgotten = PromptStore::Forgotten;

Outcome answer_error(CommandContext& context, std::string_view error) {
  context.reply.error(error);
  return Outcome::kDone;
}

std::string wrong_number_of_arguments(const CommandContext& context) {
  return "ERR wrong number of arguments for '" + std::string(context.spec.name) + "' command";
}

Outcome answer_forgotten(CommandContext& context, const PromptResult<Forgotten>& forgotten) {
  if (!forgotten) return prompt_failure(context, forgotten.error());
  context.require_lsn(forgotten->lsn);
  context.reply.integer(static_cast<int64_t>(forgotten->tokens));
  return Outcome::kDone;
}

Outcome model_set(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  const auto lsn = context.services.prompt->model_set(context.arg(2), context.arg(3));
  if (!lsn) return prompt_failure(context, lsn.error());
  context.require_lsn(*lsn);
  context.reply.ok();
  return Outcome::kDone;
}

Outcome model_get(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  PromptStore& store = *context.services.prompt;
  const auto model = store.model(context.arg(2));
  if (!model) return prompt_failure(context, {FaultKind::kNoModel, "no model " + std::string(context.arg(2)) + " was declared"});
  const ModelInfo info = store.model_info(*model);
  context.require_lsn(store.last_lsn());
  context.reply.map(4);
  context.reply.bulk("json");
  context.reply.bulk(info.json);
  context.reply.bulk("hash");
  context.reply.bulk(info.hash);
  context.reply.bulk("tokens");
  context.reply.integer(static_cast<int64_t>(info.tokens));
  context.reply.bulk("bytes");
  context.reply.integer(static_cast<int64_t>(info.bytes));
  return Outcome::kDone;
}

Outcome model_list(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  const auto names = context.services.prompt->model_names();
  context.require_lsn(context.services.prompt->last_lsn());
  context.reply.array(static_cast<int64_t>(names.size()));
  for (const std::string& name : names) context.reply.bulk(name);
  return Outcome::kDone;
}

Outcome revoke(CommandContext& context, const PromptResult<Forgotten>& forgotten) {
  context.require_sync();  // in every mode: after any crash nothing of it is reachable
  return answer_forgotten(context, forgotten);
}

Outcome model_drop(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  return revoke(context, context.services.prompt->revoke_model(context.arg(2)));
}

Outcome revoke_model(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  return revoke(context, context.services.prompt->revoke_model(context.arg(2)));
}

Outcome revoke_salt(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  OptionReader options(context, 2);
  const std::string_view salt = options.text("SALT", kMaxNameBytes);
  std::optional<std::string_view> model;
  while (!options.done()) {
    if (options.word("MODEL")) {
      model = options.text("MODEL", kMaxNameBytes);
    } else {
      options.unknown();
    }
  }
  if (!options.error().empty()) return answer_error(context, options.error());
  return revoke(context, context.services.prompt->revoke_salt(salt, model));
}

Outcome forget(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  OptionReader options(context, 3);
  std::string_view salt;
  std::vector<MediaItem> media;
  while (!options.done()) {
    if (options.word("SALT")) {
      salt = options.text("SALT", kMaxNameBytes);
    } else if (options.word("MEDIA", OptionReader::Times::kMany)) {
      media.push_back(options.media());
    } else {
      options.unknown();
    }
  }
  if (!options.error().empty()) return answer_error(context, options.error());
  const auto chain = make_chain(context.arg(2), std::move(media));
  if (!chain) return prompt_failure(context, chain.error());
  return answer_forgotten(context, context.services.prompt->forget(context.arg(1), *chain, salt));
}

struct Field {
  std::string_view name;
  double value;
  bool whole = true;
};

Outcome answer_fields(CommandContext& context, std::initializer_list<Field> fields) {
  context.reply.map(static_cast<int64_t>(fields.size()));
  for (const Field& field : fields) {
    context.reply.bulk(field.name);
    field.whole ? context.reply.integer(static_cast<int64_t>(field.value)) : context.reply.real(field.value);
  }
  return Outcome::kDone;
}

double as(uint64_t value) { return static_cast<double>(value); }

Outcome info(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  if (context.argc() > 2) return answer_error(context, wrong_number_of_arguments(context));
  PromptStore& store = *context.services.prompt;
  context.require_lsn(store.last_lsn());
  if (context.argc() == 2) {
    const auto model = store.model(context.arg(1));
    if (!model) return prompt_failure(context, {FaultKind::kNoModel, "no model " + std::string(context.arg(1)) + " was declared"});
    const ModelInfo about = store.model_info(*model);
    return answer_fields(context, {{"segments", as(about.segments)},
                                   {"tokens", as(about.tokens)},
                                   {"bytes", as(about.bytes)},
                                   {"ms_per_token", model->ms_per_token(), false},
                                   {"tokens_measured", as(model->measured_tokens)},
                                   {"pools", as(model->pools().size())}});
  }
  const PromptStats s = store.stats();
  return answer_fields(context, {{"models", as(s.models)},
                                 {"segments", as(s.segments)},
                                 {"tokens", as(s.tokens)},
                                 {"bytes", as(s.bytes)},
                                 {"budget", as(s.budget_bytes)},
                                 {"leases", as(s.leases)},
                                 {"claims", as(s.claims)},
                                 {"waiting", as(s.waiting)},
                                 {"hits", as(s.hits)},
                                 {"misses", as(s.misses)},
                                 {"puts", as(s.puts)},
                                 {"puts_nothing_new", as(s.puts_nothing_new)},
                                 {"bytes_stored", as(s.bytes_stored)},
                                 {"evicted_segments", as(s.evicted_segments)},
                                 {"evicted_boundaries", as(s.evicted_boundaries)},
                                 {"prompt_corrupt_segments", as(s.corrupt_segments)},
                                 {"claims_given", as(s.claims_given)},
                                 {"claims_waited", as(s.claims_waited)},
                                 {"claims_taken_over", as(s.claims_taken_over)},
                                 {"read_bytes_per_second", std::floor(s.read_bytes_per_second)}});
}

Outcome list(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  constexpr int64_t kMaxListed = 10'000;
  OptionReader options(context, 2);
  std::optional<std::string_view> salt;
  int64_t count = 100, cursor = 0;
  while (!options.done()) {
    if (options.word("SALT")) {
      salt = options.text("SALT", kMaxNameBytes);
    } else if (options.word("COUNT")) {
      count = options.integer("COUNT", 1, kMaxListed);
    } else if (options.word("CURSOR")) {
      cursor = options.integer("CURSOR", 0, INT64_MAX);
    } else {
      options.unknown();
    }
  }
  if (!options.error().empty()) return answer_error(context, options.error());
  PromptStore& store = *context.services.prompt;
  const auto found = store.list(context.arg(1), salt, static_cast<uint64_t>(cursor), static_cast<size_t>(count));
  if (!found) return prompt_failure(context, found.error());
  context.require_lsn(store.last_lsn());
  ReplyWriter& reply = context.reply;
  reply.array(2);
  reply.integer(static_cast<int64_t>(found->first));
  reply.array(static_cast<int64_t>(found->second.size()));
  for (const ListedChain& chain : found->second) {
    reply.map(7);
    reply.bulk("id");
    reply.integer(static_cast<int64_t>(chain.id));
    reply.bulk("salt");
    reply.bulk(chain.salt);
    reply.bulk("tokens");
    reply.integer(chain.tokens);
    reply.bulk("bytes");
    reply.integer(static_cast<int64_t>(chain.chain_bytes));
    reply.bulk("own_bytes");
    reply.integer(static_cast<int64_t>(chain.bytes));
    reply.bulk("hits");
    reply.integer(chain.hits);
    reply.bulk("age_s");
    reply.real(std::round(chain.age_s * 1000) / 1000);
  }
  return Outcome::kDone;
}

Outcome stats(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  if (context.argc() > 2) return answer_error(context, wrong_number_of_arguments(context));
  PromptStore& store = *context.services.prompt;
  if (context.argc() == 2) {
    if (!same_word(context.arg(1), "RESET")) return answer_error(context, kSyntaxError);
    store.reset_stats();
    context.reply.ok();
    return Outcome::kDone;
  }
  const PromptStats s = store.stats();
  context.require_lsn(store.last_lsn());
  return answer_fields(context, {{"prompt_hits", as(s.hits)},
                                 {"prompt_misses", as(s.misses)},
                                 {"prompt_tokens_served", as(s.tokens_served)},
                                 {"prompt_bytes_served", as(s.bytes_served)},
                                 {"prefill_seconds_avoided", s.seconds_avoided_measured + s.seconds_avoided_estimated, false},
                                 {"prefill_seconds_avoided_measured", s.seconds_avoided_measured, false},
                                 {"prefill_seconds_avoided_estimated", s.seconds_avoided_estimated, false},
                                 {"prompt_models", as(s.models)},
                                 {"prompt_segments", as(s.segments)},
                                 {"prompt_tokens", as(s.tokens)},
                                 {"prompt_bytes", as(s.bytes)},
                                 {"prompt_budget_bytes", as(s.budget_bytes)},
                                 {"prompt_corrupt_segments", as(s.corrupt_segments)},
                                 {"prompt_evicted_segments", as(s.evicted_segments)},
                                 {"prompt_evicted_boundaries", as(s.evicted_boundaries)},
                                 {"prompt_leases", as(s.leases)},
                                 {"prompt_claims", as(s.claims)},
                                 {"prompt_waiting", as(s.waiting)},
                                 {"prompt_puts", as(s.puts)},
                                 {"prompt_bytes_stored", as(s.bytes_stored)}});
}

constexpr uint32_t kRead = kReadOnly | kPion | kNoMulti, kStore = kWrite | kPion | kNoMulti, kFree = kWrite | kFreesSpace | kPion | kNoMulti;
constexpr std::string_view kOwn = "Pion's own";
constexpr uint32_t kOptional = 1, kMany = 2;

constexpr ArgumentDoc kModelName[] = {{"model", "string"}};
constexpr ArgumentDoc kModelSetDoc[] = {{"model", "string"}, {"manifest", "string"}};
constexpr ArgumentDoc kMedia[] = {{"position", "integer"}, {"length", "integer"}, {"digest", "string"}};
constexpr ArgumentDoc kMatchDoc[] = {{"model", "string"},
                                     {"tokens", "string"},
                                     {"salt", "string", "SALT", kOptional},
                                     {"length", "integer", "MAX", kOptional},
                                     {"media", "block", "MEDIA", kOptional | kMany, -1, kMedia},
                                     {"milliseconds", "integer", "LEASE", kOptional},
                                     {"hash", "string", "MANIFEST", kOptional},
                                     {"claim", "integer", "CLAIM", kOptional},
                                     {"wait", "integer", "WAIT", kOptional}};
constexpr ArgumentDoc kLayers[] = {{"first", "integer"}, {"end", "integer"}};
constexpr ArgumentDoc kReadDoc[] = {{"lease", "integer"},
                                    {"pool", "string", "POOL", kOptional},
                                    {"from", "integer", "FROM", kOptional},
                                    {"to", "integer", "TO", kOptional},
                                    {"layers", "block", "LAYERS", kOptional, -1, kLayers}};
constexpr ArgumentDoc kLocateDoc[] = {{"lease", "integer"},
                                      {"pool", "string", "POOL", kOptional},
                                      {"from", "integer", "FROM", kOptional},
                                      {"to", "integer", "TO", kOptional},
                                      {"layers", "block", "LAYERS", kOptional, -1, kLayers},
                                      {"unverified", "pure-token", "UNVERIFIED", kOptional}};
constexpr ArgumentDoc kAttachDoc[] = {{"file", "integer", "", kOptional | kMany}};
constexpr ArgumentDoc kPassed[] = {{"index", "integer"}, {"offset", "integer"}, {"length", "integer"}};
constexpr ArgumentDoc kBlob[] = {{"rows", "string"}, {"descriptor", "block", "FD", 0, -1, kPassed}};
constexpr ArgumentDoc kPool[] = {{"name", "string"}, {"blob", "oneof", "", 0, -1, kBlob}};
constexpr ArgumentDoc kPutDoc[] = {{"model", "string"},
                                   {"tokens", "string"},
                                   {"from", "integer"},
                                   {"salt", "string", "SALT", kOptional},
                                   {"media", "block", "MEDIA", kOptional | kMany, -1, kMedia},
                                   {"pool", "block", "POOL", kMany, -1, kPool},
                                   {"milliseconds", "double", "PREFILL_MS", kOptional},
                                   {"hash", "string", "MANIFEST", kOptional},
                                   {"durable", "pure-token", "DURABLE", kOptional}};
constexpr ArgumentDoc kLeaseDoc[] = {{"lease", "integer"}};
constexpr ArgumentDoc kForgetDoc[] = {{"model", "string"},
                                      {"tokens", "string"},
                                      {"salt", "string", "SALT", kOptional},
                                      {"media", "block", "MEDIA", kOptional | kMany, -1, kMedia}};
constexpr ArgumentDoc kRevokeSaltDoc[] = {{"salt", "string"}, {"model", "string", "MODEL", kOptional}};
constexpr ArgumentDoc kInfoDoc[] = {{"model", "string", "", kOptional}};
constexpr ArgumentDoc kListDoc[] = {{"model", "string"},
                                    {"salt", "string", "SALT", kOptional},
                                    {"count", "integer", "COUNT", kOptional},
                                    {"cursor", "integer", "CURSOR", kOptional}};
constexpr ArgumentDoc kStatsDoc[] = {{"reset", "pure-token", "RESET", kOptional}};

constexpr CommandSpec own(std::string_view name, int arity, uint32_t flags, Handler handler, std::string_view summary,
                          std::string_view complexity, std::span<const ArgumentDoc> arguments) {
  CommandSpec spec;
  spec.name = name;
  spec.arity = arity;
  spec.flags = flags;
  spec.categories = flags & kWrite ? "write,slow" : "read,slow";
  spec.handler = handler;
  spec.group = "prompt";
  spec.since = "0.1.0";
  spec.summary = summary;
  spec.complexity = complexity;
  spec.arguments = arguments;
  spec.status = kOwn;
  return spec;
}

constexpr CommandSpec container(std::string_view name, std::string_view summary, std::span<const CommandSpec> subcommands) {
  CommandSpec spec = own(name, -2, kPion, nullptr, summary, "Depends on subcommand.", {});
  spec.subcommands = subcommands;
  spec.categories = "slow";
  return spec;
}

constexpr CommandSpec with_stream(CommandSpec spec, CommandSpec::StreamRule (*rule)(const Arguments&, size_t)) {
  spec.stream_rule = rule;
  return spec;
}

constexpr CommandSpec kModelCommands[] = {
    own("prompt.model|drop", 3, kFree, model_drop, "Forgets a model and everything stored under it.", "O(N) of its segments.", kModelName),
    own("prompt.model|get", 3, kRead, model_get, "A model's manifest, its hash, and what is stored.", "O(S) of salts.", kModelName),
    own("prompt.model|list", 2, kRead, model_list, "Names of the declared models.", "O(M) of models.", {}),
    own("prompt.model|set", 4, kStore, model_set, "Declares a model's identity and pools.", "O(N) of the manifest.", kModelSetDoc),
};

constexpr CommandSpec kRevokeCommands[] = {
    own("prompt.revoke|model", 3, kFree, revoke_model, "Makes everything stored under a model unreachable, durably.",
        "O(N) of its segments.", kModelName),
    own("prompt.revoke|salt", -3, kFree, revoke_salt, "Makes everything stored under a salt unreachable, durably.",
        "O(N) of its segments.", kRevokeSaltDoc),
};

constexpr CommandSpec kPrompt[] = {
    own("pion.stats", -1, kRead, stats, "Hits, misses, tokens and bytes served, seconds of prefill avoided.", "O(1)", kStatsDoc),
    own("prompt.attach", -1, kRead, prompt_attach, "Passes read-only descriptors of payload files over the Unix socket.",
        "O(F) of files.", kAttachDoc),
    own("prompt.forget", -3, kFree, forget, "Forgets everything that begins with these tokens.", "O(N) of what is forgotten.", kForgetDoc),
    own("prompt.info", -1, kRead, info, "Counters, bytes and budget of prompt memory, or of one model.", "O(S) of salts.", kInfoDoc),
    own("prompt.list", -2, kRead, list, "The stored chains of a model.", "O(N) of segments looked at.", kListDoc),
    own("prompt.locate", -2, kRead, prompt_locate, "Where the rows of a lease lie: file, offset, length, checksums.",
        "O(R) of runs; all bytes are verified unless told otherwise.", kLocateDoc),
    own("prompt.match", -3, kRead, prompt_match, "The longest stored prefix of a prompt, and a lease on it.",
        "O(N) of tokens.", kMatchDoc),
    container("prompt.model", "Declares, shows and drops models.", kModelCommands),
    with_stream(own("prompt.put", -4, kStore, prompt_put, "Stores the rows of a prompt's tokens from a position on.",
                    "O(B) of bytes.", kPutDoc),
                prompt_put_stream),
    own("prompt.read", -2, kRead, prompt_read, "The rows of a lease, verified, one bulk per layer and side.", "O(B) of bytes.", kReadDoc),
    own("prompt.release", 2, kRead, prompt_release, "Ends a lease.", "O(P) of segments it pinned.", kLeaseDoc),
    container("prompt.revoke", "Makes what a model or a salt stored unreachable.", kRevokeCommands),
};

}  // namespace

std::span<const CommandSpec> prompt_commands() { return kPrompt; }

}  // namespace pion
