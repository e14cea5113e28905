// PROMPT.READ, LOCATE and ATTACH: rows by value, by place, and the files they lie in.
#include <unistd.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "command/arguments.h"
#include "command/prompt_args.h"

namespace pion {
namespace {

constexpr uint64_t kInlineBytes = 16 * kKiB;       // a run below this is copied: cheaper than a sendfile of its own
constexpr uint64_t kInlineReplyBytes = 4 * kMiB;   // of one reply; beyond, small runs are slices too
constexpr size_t kAttachFiles = kPassedDescriptors;

// READ and LOCATE take the same arguments. Empty: read; otherwise the error.
std::string parse_range(CommandContext& context, bool locate, RangeRequest& request) {
  OptionReader options(context, 1);
  request.lease = static_cast<uint64_t>(options.integer("lease", 0, INT64_MAX));
  while (!options.done()) {
    if (options.word("POOL")) {
      request.pool = std::string(options.text("POOL", kMaxNameBytes));
    } else if (options.word("FROM")) {
      request.from = static_cast<uint32_t>(options.integer("FROM", 0, UINT32_MAX));
    } else if (options.word("TO")) {
      request.to = static_cast<uint32_t>(options.integer("TO", 0, UINT32_MAX));
    } else if (options.word("LAYERS")) {
      const auto first = static_cast<uint32_t>(options.integer("LAYERS", 0, UINT32_MAX));
      request.layers = {first, static_cast<uint32_t>(options.integer("LAYERS", 0, UINT32_MAX))};
    } else if (locate && options.word("UNVERIFIED")) {
      request.verify = false;
    } else {
      options.unknown();
    }
  }
  return options.error();
}

class BulkWriter {
 public:
  explicit BulkWriter(ReplyWriter& reply) : out_(reply.out()) {}

  // False: a verified file could not be read any more.
  bool write(const std::vector<ExtentRun>& runs) {
    uint64_t length = 0;
    for (const ExtentRun& run : runs) length += run.length;
    out_.tail().append("$").append(std::to_string(length)).append("\r\n");
    for (const ExtentRun& run : runs) {
      if (run.length >= kInlineBytes || inlined_ + run.length > kInlineReplyBytes) {
        out_.slice(run.extent->slice(run.offset, run.length));
      } else if (!copy(run)) {
        return false;
      }
    }
    out_.tail().append("\r\n");
    return true;
  }

 private:
  bool copy(const ExtentRun& run) {
    std::string& tail = out_.tail();
    const size_t before = tail.size();
    tail.resize(before + run.length);
    inlined_ += run.length;
    for (uint64_t done = 0; done < run.length;) {
      const ssize_t got = pread(run.extent->fd(), tail.data() + before + done, run.length - done,
                                static_cast<off_t>(run.extent->payload_offset() + run.offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      done += static_cast<uint64_t>(got);
    }
    return true;
  }

  OutputChain& out_;
  uint64_t inlined_ = 0;
};

// Checksums of the chunks a run touches.
std::string checksums_of(const ExtentRun& run) {
  const std::vector<uint64_t>& all = run.extent->chunk_checksums();
  std::string out;
  if (run.length == 0) return out;
  for (uint64_t chunk = run.offset / kChunkBytes; chunk <= (run.offset + run.length - 1) / kChunkBytes; ++chunk) {
    ByteWriter(out).put(all[chunk]);
  }
  return out;
}

void write_located(ReplyWriter& reply, const PoolRange& range) {
  reply.array(static_cast<int64_t>(range.runs.size()));
  for (const std::vector<ExtentRun>& runs : range.runs) {
    reply.array(static_cast<int64_t>(runs.size()));
    for (const ExtentRun& run : runs) {
      reply.array(6);
      reply.integer(run.extent->ref().file);
      reply.integer(static_cast<int64_t>(run.extent->payload_offset() + run.offset));
      reply.integer(static_cast<int64_t>(run.length));
      reply.integer(static_cast<int64_t>(run.extent->payload_offset()));
      reply.bulk(checksums_of(run));
      reply.integer(static_cast<int64_t>(run.extent->payload_bytes()));
    }
  }
}

PromptResult<RangeReply> look_up(CommandContext& context, bool locate, std::string& error) {
  RangeRequest request;
  error = parse_range(context, locate, request);
  if (!error.empty()) return refuse(FaultKind::kInvalid, error);
  return context.services.prompt->range(request, *prompt_client(context));
}

}  // namespace

Outcome prompt_read(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  std::string error;
  const auto range = look_up(context, false, error);
  if (!error.empty()) return context.reply.error(error), Outcome::kDone;
  if (!range) return prompt_failure(context, range.error());
  context.require_lsn(range->lsn);
  // Written aside: nothing of it may go out if the disk fails now.
  OutputChain out;
  ReplyWriter reply(out, context.reply.protocol());
  BulkWriter bulks(reply);
  if (range->by_pool) reply.map(static_cast<int64_t>(range->pools.size()));
  for (const PoolRange& pool : range->pools) {
    if (range->by_pool) reply.bulk(pool.pool);
    reply.array(static_cast<int64_t>(pool.runs.size()));
    for (const auto& runs : pool.runs) {
      if (bulks.write(runs)) continue;
      context.reply.error("CORRUPT a payload file cannot be read");
      return Outcome::kDone;
    }
  }
  context.reply.out().splice(std::move(out));
  return Outcome::kDone;
}

Outcome prompt_locate(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  std::string error;
  const auto range = look_up(context, true, error);
  if (!error.empty()) return context.reply.error(error), Outcome::kDone;
  if (!range) return prompt_failure(context, range.error());
  context.require_lsn(range->lsn);
  if (range->by_pool) context.reply.map(static_cast<int64_t>(range->pools.size()));
  for (const PoolRange& pool : range->pools) {
    if (range->by_pool) context.reply.bulk(pool.pool);
    write_located(context.reply, pool);
  }
  return Outcome::kDone;
}

Outcome prompt_attach(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  ReplyWriter& reply = context.reply;
  if (!context.session.unix_socket) {
    reply.error("ERR PROMPT.ATTACH passes descriptors, which only the Unix socket can (INFO server names it as unixsocket)");
    return Outcome::kDone;
  }
  if (context.argc() - 1 > kAttachFiles) {
    reply.error("ERR at most " + std::to_string(kAttachFiles) + " files in one call");
    return Outcome::kDone;
  }
  ExtentStore& extents = context.services.prompt->extents();
  std::vector<uint32_t> ids;
  for (size_t i = 1; i < context.argc(); ++i) {
    const auto id = integer_argument(context.arg(i));
    if (!id || *id < 1 || *id > UINT32_MAX) return reply.error("ERR not a file's id"), Outcome::kDone;
    ids.push_back(static_cast<uint32_t>(*id));
  }
  if (ids.empty()) {
    ids = extents.files(Space::kPrompt);
    if (ids.size() > kAttachFiles) ids.resize(kAttachFiles);
  }
  std::vector<int> fds;
  auto pins = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (uint32_t id : ids) {
    auto descriptor = extents.descriptor(Space::kPrompt, id);
    if (!descriptor) return reply.error("ERR no file " + std::to_string(id) + " of prompt memory: " + descriptor.error().message), Outcome::kDone;
    fds.push_back(descriptor->fd);
    pins->push_back(std::move(descriptor->pin));
  }
  if (!fds.empty()) reply.out().descriptors(std::move(fds), pins);
  reply.array(static_cast<int64_t>(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i) {
    reply.array(2);
    reply.integer(ids[i]);
    reply.integer(static_cast<int64_t>(i));
  }
  return Outcome::kDone;
}

}  // namespace pion
