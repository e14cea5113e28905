#include "server/server.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/latency_monitor.h"
#include "base/log.h"
#include "command/command_statistics.h"
#include "command/slow_command.h"
#include "keyspace/collection_limits.h"
#include "keyspace/keyspace.h"
#include "prompt/store.h"
#include "storage/storage.h"

namespace pion {
namespace {

constexpr unsigned kWorkerThreads = 4;     // slow work waits for disks as much as for cores
constexpr unsigned kPatientThreads = 4;
constexpr int64_t kDrainMs = 5000;         // a stop waits this long for replies that are owed
constexpr int64_t kUpkeepBusyMs = 1, kUpkeepBudgetUs = 1000;
constexpr int64_t kSaveLookMs = 200, kSaveRetryMs = 5000;

void set_live(LiveSettings& live, const Settings& settings) {
  live.idle_timeout_s = settings.timeout_s;
  live.keepalive_s = settings.tcp_keepalive_s;
  live.max_clients = static_cast<uint64_t>(settings.maxclients);
  live.max_bulk_bytes = settings.proto_max_bulk_bytes;
  live.query_buffer_bytes = settings.client_query_buffer_bytes;
  live.password_required = !settings.requirepass.empty();
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < kClientClasses; ++i) {
    const OutputLimitSetting& limit = settings.output_limits[i];
    live.output_limits[i].hard_bytes = limit.hard_bytes;
    live.output_limits[i].soft_bytes = limit.soft_bytes;
    live.output_limits[i].soft_ms = limit.soft_s * 1000;
    for (const uint64_t bytes : {limit.hard_bytes, limit.soft_bytes}) least = bytes > 0 ? std::min(least, bytes) : least;
  }
  live.least_output_limit_bytes = least;
}

std::string executable_path() {
  char path[4096];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "";
}

// 40 digits, another one each start.
std::string random_hex() {
  std::random_device random;
  std::string text;
  while (text.size() < 40) text.push_back("0123456789abcdef"[random() & 15]);
  return text;
}

}  // namespace

Server::Server(Options& options, Storage& storage) : options_(options), storage_(storage), run_id_(random_hex()), start_wall_ms_(wall_ms()) {
  const Settings settings = options.settings();
  shared_.services.storage = &storage;
  shared_.services.server = this;
  shared_.services.pubsub = &pubsub_;
  shared_.services.monitors = &monitors_;
  shared_.services.slow_log = &slow_log_;
  shared_.services.notifications = &notifications_;
  shared_.journal = &storage.journal();
  shared_.extents = &storage.extents();
  set_live(shared_.live, settings);
  workers_ = std::make_unique<WorkerPool>(kWorkerThreads);
  shared_.workers = workers_.get();
  patient_ = std::make_unique<WorkerPool>(kPatientThreads);
  shared_.patient = patient_.get();
  journal_writer_ = std::make_unique<WorkerPool>(1);
  shared_.journal_writer = journal_writer_.get();
  const auto count = static_cast<unsigned>(std::max<int64_t>(settings.workers, 1));
  for (unsigned i = 0; i < count; ++i) {
    threads_.push_back(std::make_unique<IoThread>(shared_, i));
    shared_.threads.push_back(threads_.back().get());
  }
  balancer_ = std::make_unique<Balancer>(shared_.threads);
  hook_options();
  set_observing(settings);
}

Server::~Server() {
  patient_.reset();  // its jobs may go on to a worker
  workers_.reset();
  journal_writer_.reset();
}

void Server::set_planes(Keyspace* keyspace, PromptStore* prompt) {
  shared_.services.keyspace = keyspace;
  shared_.services.prompt = prompt;
  keyspace->set_observer(&notifications_);
  set_memory_limits(options_.settings());
  const struct mallinfo2 heap = mallinfo2();
  startup_memory_bytes_ = heap.uordblks + heap.hblkhd;
  set_upkeep(options_.settings());
}

void Server::hook_options() {
  const auto live = [this](const Settings& settings) -> Status { return set_live(shared_.live, settings), Status{}; };
  for (std::string_view name : {"timeout", "tcp-keepalive", "proto-max-bulk-len", "client-query-buffer-limit", "client-output-buffer-limit", "requirepass"}) {
    options_.on_change(name, live);
  }
  options_.on_change("maxclients", [this](const Settings& settings) { return set_max_clients(settings); });
  options_.on_change("port", [this](const Settings& settings) { return listen_anew(settings, "Unable to listen on this port. Check server logs."); }, true);
  options_.on_change("bind", [this](const Settings& settings) { return listen_anew(settings, "Failed to bind to specified addresses."); }, true);
  options_.on_change("appendfsync", [this](const Settings& settings) -> Status {
    storage_.journal().set_mode(settings.sync_mode());
    return {};
  });
  options_.on_change("prompt-budget", [this](const Settings& settings) -> Status {
    shared_.services.prompt->set_budget(settings.prompt_budget_bytes);
    return {};
  });
  const auto observing = [this](const Settings& settings) -> Status { return set_observing(settings), Status{}; };
  for (std::string_view name : {"slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold", "latency-tracking",
                                "latency-tracking-info-percentiles"}) {
    options_.on_change(name, observing);
  }
  const auto memory = [this](const Settings& settings) -> Status { return set_memory_limits(settings), Status{}; };
  for (std::string_view name : {"maxmemory", "maxmemory-policy", "maxmemory-samples", "lfu-log-factor", "lfu-decay-time", "active-expire",
                                "hash-max-listpack-entries", "hash-max-listpack-value", "list-max-listpack-size",
                                "zset-max-listpack-entries", "zset-max-listpack-value",
                                "set-max-intset-entries", "set-max-listpack-entries", "set-max-listpack-value", "hll-sparse-max-bytes",
                                "stream-node-max-bytes", "stream-node-max-entries", "notify-keyspace-events",
                                "active-expire-effort", "maxmemory-eviction-tenacity"}) {
    options_.on_change(name, memory);
  }
  for (std::string_view name : {"hz", "save"}) {
    options_.on_change(name, [this](const Settings& settings) -> Status { return set_upkeep(settings), Status{}; });
  }
}

void Server::set_observing(const Settings& settings) {
  slow_log_.set_max_entries(static_cast<uint64_t>(settings.slowlog_max_len));
  slow_log_.set_threshold_us(settings.slowlog_slower_than_us);
  latency_monitor().set_threshold_ms(settings.latency_monitor_threshold_ms);
  command_statistics().set_tracking(settings.latency_tracking);
  command_statistics().set_slow_ns(slow_ns_of(settings.slowlog_slower_than_us, settings.latency_monitor_threshold_ms));
}

void Server::set_memory_limits(const Settings& settings) {
  KeyspaceSettings& limits = shared_.services.keyspace->settings;
  limits.policy = eviction_policy_of(settings.maxmemory_policy).value_or(EvictionPolicy::kNoEviction);
  limits.samples = static_cast<uint32_t>(settings.maxmemory_samples);
  limits.lfu_log_factor = static_cast<uint32_t>(settings.lfu_log_factor);
  limits.lfu_decay_minutes = static_cast<uint32_t>(settings.lfu_decay_minutes);
  limits.active_expire = settings.active_expire;
  limits.hll_sparse_max_bytes = settings.hll_sparse_max_bytes;
  limits.expire_effort = static_cast<uint32_t>(settings.active_expire_effort);
  limits.eviction_tenacity = static_cast<uint32_t>(settings.maxmemory_eviction_tenacity);
  limits.maxmemory = settings.maxmemory_bytes;
  notifications_.set_classes(static_cast<uint32_t>(settings.notify_classes));
  limits.events = wanted_events(static_cast<uint32_t>(settings.notify_classes));
  collection_limits().list_listpack_size = settings.list_max_listpack_size;
  collection_limits().hash_entries = static_cast<uint64_t>(settings.hash_max_listpack_entries);
  collection_limits().hash_value_bytes = settings.hash_max_listpack_value;
  collection_limits().sorted_set_entries = static_cast<uint64_t>(settings.zset_max_listpack_entries);
  collection_limits().sorted_set_value_bytes = settings.zset_max_listpack_value;
  collection_limits().stream_node_bytes = settings.stream_node_max_bytes;
  collection_limits().stream_node_entries = static_cast<uint64_t>(settings.stream_node_max_entries);
  collection_limits().set_integers = static_cast<uint64_t>(settings.set_max_intset_entries);
  collection_limits().set_entries = static_cast<uint64_t>(settings.set_max_listpack_entries);
  collection_limits().set_value_bytes = settings.set_max_listpack_value;
}

// What was done in the last second or so.
void Server::measure_rates() {
  const int64_t now_us = monotonic_us();
  if (now_us - rates_.at_us < 1'000'000) return;
  const uint64_t commands = command_statistics().calls_ever();
  uint64_t input = 0, output = 0;
  for (const auto& thread : threads_) {
    input += thread->counters().net_input_bytes.load(std::memory_order_relaxed);
    output += thread->counters().net_output_bytes.load(std::memory_order_relaxed);
  }
  std::lock_guard lock(rates_mutex_);
  if (rates_.at_us > 0) {
    const double seconds = static_cast<double>(now_us - rates_.at_us) / 1e6;
    rates_.commands_per_s = static_cast<double>(commands - rates_.commands) / seconds;
    rates_.input_kib_per_s = static_cast<double>(input - rates_.input) / 1024 / seconds;
    rates_.output_kib_per_s = static_cast<double>(output - rates_.output) / 1024 / seconds;
  }
  rates_.at_us = now_us, rates_.commands = commands, rates_.input = input, rates_.output = output;
}

// Expiry, eviction and what FLUSH left to free: a thread of its own, so that no reactor waits for it.
void Server::maintain() {
  pthread_setname_np(pthread_self(), "pion-upkeep");
  std::unique_lock lock(upkeep_mutex_);
  while (!upkeep_stop_) {
    lock.unlock();
    Keyspace& keyspace = *shared_.services.keyspace;
    const bool more = keyspace.maintain(kUpkeepBudgetUs * keyspace.settings.expire_effort.load(std::memory_order_relaxed));
    if (ready_keys != 0) keyspace.serve_waiters();
    measure_rates();
    lock.lock();
    save_when_due();
    upkeep_wake_.wait_for(lock, std::chrono::milliseconds(more ? kUpkeepBusyMs : upkeep_ms_), [this] { return upkeep_stop_; });
  }
}

void Server::set_upkeep(const Settings& settings) {
  std::lock_guard lock(upkeep_mutex_);
  upkeep_ms_ = 1000 / settings.hz;
  save_points_ = settings.save_points();
}

// The option `save`. With upkeep_mutex_.
void Server::save_when_due() {
  if (save_points_.empty() || monotonic_ms() < next_save_look_ms_) return;
  next_save_look_ms_ = monotonic_ms() + kSaveLookMs;
  const StorageStats stats = storage_.stats();
  const int64_t last_s = std::max(stats.last_checkpoint_wall_s, start_wall_ms_ / 1000);
  const int64_t passed_s = wall_ms() / 1000 - last_s;
  const auto due = [&](const Settings::SavePoint& point) {
    return passed_s >= point.seconds && stats.records_since_checkpoint >= static_cast<uint64_t>(point.changes);
  };
  if (!std::any_of(save_points_.begin(), save_points_.end(), due)) return;
  storage_.request_checkpoint();
  if (!stats.last_checkpoint_ok) next_save_look_ms_ = monotonic_ms() + kSaveRetryMs;
}

void Server::start() {
  storage_.journal().set_progress_listener([this] {
    for (const auto& thread : threads_) thread->post_journal_progress();
  });
  if (threads_.size() > 1) threads_[0]->reactor().post([this] { balance(); });
  threads_[0]->reactor().post([this] { start_listening(); });
  for (const auto& thread : threads_) thread->start();
  upkeep_ = std::thread([this] { maintain(); });
}

void Server::stop() {
  threads_[0]->reactor().post([this] { stop_listening(); });
  for (const auto& thread : threads_) thread->post_drain(kDrainMs);
  for (const auto& thread : threads_) thread->join();
  {
    std::lock_guard lock(upkeep_mutex_);
    upkeep_stop_ = true;
  }
  upkeep_wake_.notify_all();
  if (upkeep_.joinable()) upkeep_.join();
  patient_.reset();
  workers_.reset();  // a worker that still runs uses its connection: they go after it
  if (!unix_socket_.empty()) ::unlink(unix_socket_.c_str());
}

// On thread 0.
void Server::balance() {
  balancer_->step(clock_ns(CLOCK_MONOTONIC));
  threads_[0]->reactor().after(Balancer::kStepMs, [this] { balance(); });
}

ServerStats Server::stats() const {
  ServerStats stats;
  stats.start_wall_ms = start_wall_ms_;
  for (const auto& thread : threads_) {
    const ThreadCounters& counters = thread->counters();
    stats.connections_received += counters.connections_received.load(std::memory_order_relaxed);
    stats.ticks += thread->reactor().ticks();
    stats.busy_us += thread->reactor().busy_ns() / 1000;
    stats.longest_tick_us = std::max(stats.longest_tick_us, thread->reactor().longest_tick_ns() / 1000);
    stats.net_input_bytes += counters.net_input_bytes.load(std::memory_order_relaxed);
    stats.net_output_bytes += counters.net_output_bytes.load(std::memory_order_relaxed);
    stats.connected_clients += counters.connected.load(std::memory_order_relaxed);
    stats.blocked_clients += counters.blocked.load(std::memory_order_relaxed);
    stats.output_limit_disconnections += counters.output_limit_disconnections.load(std::memory_order_relaxed);
  }
  stats.connections_received -= base_.received;
  stats.commands_processed = command_statistics().calls();
  stats.net_input_bytes -= base_.in;
  stats.net_output_bytes -= base_.out;
  stats.rejected_connections = rejected_.load(std::memory_order_relaxed) - base_.rejected;
  stats.ticks -= base_.ticks;
  stats.busy_us -= base_.busy_us;
  {
    std::lock_guard lock(rates_mutex_);
    stats.commands_per_s = rates_.commands_per_s;
    stats.input_kib_per_s = rates_.input_kib_per_s;
    stats.output_kib_per_s = rates_.output_kib_per_s;
  }
  stats.max_clients = shared_.live.max_clients;
  stats.startup_memory_bytes = startup_memory_bytes_;
  stats.tcp_port = tcp_port_;
  stats.threads = static_cast<unsigned>(threads_.size());
  stats.unix_socket = unix_socket_;
  stats.config_file = options_.config_file();
  stats.executable = executable_path();
  stats.run_id = run_id_;
  return stats;
}

// The threads' counters are theirs; what they stand at becomes the new zero.
void Server::reset_stats() {
  const ServerStats now = stats();
  base_.received += now.connections_received;
  base_.ticks += now.ticks;
  base_.busy_us += now.busy_us;
  for (const auto& thread : threads_) thread->reactor().forget_longest_tick();
  command_statistics().reset();
  base_.in += now.net_input_bytes;
  base_.out += now.net_output_bytes;
  base_.rejected += now.rejected_connections;
}

std::vector<ConfigValue> Server::config_get(std::string_view pattern) const { return options_.get(pattern); }
Status Server::config_set(const std::vector<ConfigValue>& values) { return options_.set(values); }
Status Server::config_rewrite() { return options_.rewrite(); }

bool Server::check_password(std::string_view user, std::string_view password) const {
  return options_.check_password(user, password);
}

bool Server::password_required() const { return shared_.live.password_required.load(std::memory_order_relaxed); }

// Each thread tells its own; the last one brings the list to the thread that asked.
void Server::clients(std::function<void(std::vector<ClientInfo>)> done) {
  struct Gathering {
    std::mutex mutex;
    std::vector<ClientInfo> all;
    size_t missing;
  };
  auto gathering = std::make_shared<Gathering>();
  gathering->missing = threads_.size();
  IoThread* const caller = IoThread::current() ? IoThread::current() : threads_[0].get();
  auto finish = std::make_shared<std::function<void(std::vector<ClientInfo>)>>(std::move(done));
  std::lock_guard lock(shared_.move_mutex);
  shared_.gatherings++;
  for (const auto& thread : threads_) {
    thread->post_clients([this, gathering, finish, caller](std::vector<ClientInfo> some) {
      std::lock_guard lock(gathering->mutex);
      std::move(some.begin(), some.end(), std::back_inserter(gathering->all));
      if (--gathering->missing > 0) return;
      {
        std::lock_guard moves(shared_.move_mutex);
        shared_.gatherings--;
      }
      std::sort(gathering->all.begin(), gathering->all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
      caller->reactor().post([gathering, finish] { (*finish)(std::move(gathering->all)); });
    });
  }
}

bool Server::kill_client(uint64_t id) {
  const int thread = shared_.clients.thread_of(id);
  if (thread < 0) return false;
  threads_[static_cast<size_t>(thread)]->post_kill(id);
  return true;
}

void Server::pause_clients(int64_t duration_ms, bool only_writes) {
  constexpr int64_t kLongest = 365LL * 24 * 3600 * 1000;
  shared_.pause.pause(monotonic_ms() + std::min(duration_ms, kLongest),
                      only_writes ? ClientPause::Mode::kWrites : ClientPause::Mode::kAll);
  shared_.services.keyspace->settings.keeps_all_until_ms = shared_.pause.until_ms();
}

void Server::unpause_clients() {
  // Not zero: a command under way may not have found a key that is there, and make it.
  std::atomic<int64_t>& until_ms = shared_.services.keyspace->settings.keeps_all_until_ms;
  if (until_ms.load() != 0) until_ms = monotonic_ms();
  shared_.pause.end();
  for (const auto& thread : threads_) thread->post_unpause();
}

void Server::unblock_client(uint64_t id, bool error, std::function<void(bool)> done) {
  const int thread = shared_.clients.thread_of(id);
  if (thread < 0) return done(false);
  threads_[static_cast<size_t>(thread)]->post_unblock(id, error, std::move(done));
}

// SIGTERM has one way, and this is it: main() waits for the signal.
void Server::shutdown(bool save) {
  save_wanted_ = save;
  stopped_by_command_ = true;
  ::kill(::getpid(), SIGTERM);
}

}  // namespace pion
