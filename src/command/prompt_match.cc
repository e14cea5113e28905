// PROMPT.MATCH and RELEASE.
#include <cmath>

#include "base/limits.h"
#include "command/prompt_args.h"

namespace pion {
namespace {

double rounded(double ms) { return std::round(ms * 1000) / 1000; }

void write_match(ReplyWriter& out, const MatchReply& match) {
  out.map(7);
  out.bulk("matched");
  out.integer(match.matched);
  out.bulk("lease");
  match.lease != 0 ? out.integer(static_cast<int64_t>(match.lease)) : out.nil();
  out.bulk("segments");
  out.array(static_cast<int64_t>(match.segments.size()));
  for (const MatchedSegment& segment : match.segments) {
    out.array(3);
    out.integer(static_cast<int64_t>(segment.id));
    out.integer(segment.from);
    out.integer(segment.to);
  }
  out.bulk("saved_ms");
  out.real(rounded(match.saved_ms));
  out.bulk("restore_ms");
  out.real(rounded(match.restore_ms));
  out.bulk("claimed");
  out.integer(match.claimed);
  out.bulk("fork");
  if (match.fork) {
    out.array(2);
    out.integer(match.fork->first);
    out.integer(match.fork->second);
  } else {
    out.nil();
  }
}

void write_answer(ReplyWriter& out, const PromptResult<MatchReply>& answer) {
  if (answer) {
    write_match(out, *answer);
  } else {
    out.error(prompt_error(answer.error()));
  }
}

}  // namespace

Outcome prompt_match(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  MatchRequest request;
  request.model = context.arg(1);
  std::vector<MediaItem> media;
  bool waits = false;
  OptionReader options(context, 3);
  while (!options.done()) {
    if (options.word("SALT")) {
      request.salt = options.text("SALT", kMaxNameBytes);
    } else if (options.word("MAX")) {
      request.max = static_cast<uint32_t>(std::min<int64_t>(options.integer("MAX", 0, INT64_MAX), UINT32_MAX));
    } else if (options.word("MEDIA", OptionReader::Times::kMany)) {
      media.push_back(options.media());
    } else if (options.word("LEASE")) {
      request.lease_ms = options.integer("LEASE", 0, kMaxLeaseMs);
    } else if (options.word("MANIFEST")) {
      request.manifest_hash = options.text("MANIFEST", 128);
      if (request.manifest_hash.empty() && options.error().empty()) options.fail("ERR MANIFEST is empty");
    } else if (options.word("CLAIM")) {
      request.claim_ms = options.integer("CLAIM", 1, kMaxLeaseMs);
    } else if (options.word("WAIT")) {
      request.wait_ms = options.integer("WAIT", 0, kMaxLeaseMs);
      waits = true;
    } else {
      options.unknown();
    }
  }
  if (waits && request.claim_ms == 0) options.fail("ERR WAIT needs CLAIM");
  if (!options.error().empty()) {
    context.reply.error(options.error());
    return Outcome::kDone;
  }
  auto chain = make_chain(context.arg(2), std::move(media));
  if (!chain) return prompt_failure(context, chain.error());
  request.chain = std::move(*chain);

  PromptStore& store = *context.services.prompt;
  // Made when it comes to waiting, from whichever thread: the first of the two ways to answer takes it.
  std::shared_ptr<Completion> completion;
  PromptStore::MatchAnswer later;
  if (request.wait_ms > 0 && request.claim_ms > 0) {
    completion = context.suspend();
    later = [completion, &store](PromptResult<MatchReply> answer) {
      const Lsn lsn = answer ? answer->lsn : store.last_lsn();
      completion->complete([answer = std::move(answer)](ReplyWriter& out) { write_answer(out, answer); }, lsn);
    };
  }
  const auto answer = store.match(std::move(request), prompt_client(context), later);
  if (completion) {
    if (answer) later(std::move(*answer));
    return Outcome::kSuspended;
  }
  if (!*answer) return prompt_failure(context, answer->error());
  context.require_lsn((*answer)->lsn);
  write_match(context.reply, **answer);
  return Outcome::kDone;
}

Outcome prompt_release(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  OptionReader options(context, 1);
  const int64_t lease = options.integer("lease", 0, INT64_MAX);
  if (!options.error().empty()) {
    context.reply.error(options.error());
  } else {
    context.reply.integer(context.services.prompt->release(static_cast<uint64_t>(lease), *prompt_client(context)));
  }
  return Outcome::kDone;
}

}  // namespace pion
