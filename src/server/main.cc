// pion-server: the order of start and stop. Rooms are wired together here and nowhere else.
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "base/cycle_clock.h"
#include "base/log.h"
#include "command/version.h"
#include "io/filesystem.h"
#include "keyspace/keyspace.h"
#include "prompt/store.h"
#include "server/options.h"
#include "server/server.h"
#include "server/signals.h"
#include "storage/storage.h"

namespace pion {
namespace {

// Said where the person who starts the server looks, too, when the log is a file.
int refuse_start(const Settings& settings, const Error& error) {
  log_warning("the server does not start: " + error.message);
  if (!settings.logfile.empty()) std::fprintf(stderr, "pion-server does not start: %s\n", error.message.c_str());
  return 1;
}

int run(Options& options) {
  const Settings settings = options.settings();
  prepare_signals();
  auto opened = Storage::open(real_filesystem(), {.dir = settings.dir, .appendonly = settings.appendonly, .sync = settings.sync_mode()});
  if (!opened) return refuse_start(settings, opened.error());
  const std::unique_ptr<Storage> storage = std::move(*opened);
  Keyspace keyspace(*storage);
  PromptStore prompt(*storage, {.budget_bytes = settings.prompt_budget_bytes});
  storage->add_plane(&keyspace);
  storage->add_plane(&prompt);

  Server server(options, *storage);
  server.set_planes(&keyspace, &prompt);
  // Clients that come while we recover wait in the backlog.
  if (Status status = server.open_sockets(); !status) return refuse_start(settings, status.error());
  if (Status status = storage->recover(); !status) return refuse_start(settings, status.error());
  if (Status status = prompt.start(); !status) return refuse_start(settings, status.error());
  server.start();
  log_notice("ready to accept connections, data in " + settings.dir);

  const int number = wait_for_stop();
  log_notice(std::string("stopping: ") + (number == SIGINT ? "SIGINT" : "SIGTERM"));
  server.stop();
  bool kept = storage->journal().enabled();
  if (server.save_wanted(!kept)) {  // without a journal only a checkpoint keeps the data
    const Status saved = storage->checkpoint();
    if (!saved) log_warning("the checkpoint failed: " + saved.error().message);
    kept = kept || saved;
  }
  prompt.stop();
  storage->stop();
  log_notice(kept ? "all is written and synced, bye" : "there is no journal: what changed after the last checkpoint is not kept, bye");
  return 0;
}

}  // namespace
}  // namespace pion

int main(int argc, char** argv) {
  pion::Options options;
  if (const auto code = options.start(argc, argv)) return *code;
  const pion::Settings settings = options.settings();
  pion::CycleClock::calibrate();
  pion::set_log_level(settings.log_level());
  if (!pion::set_log_file(settings.logfile)) {
    std::fprintf(stderr, "pion-server does not start: cannot open the log file %s\n", settings.logfile.c_str());
    return 1;
  }
  for (const std::string& notice : options.notices()) pion::log_notice(notice);
  return pion::run(options);
}
