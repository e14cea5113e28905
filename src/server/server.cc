#include "server/server.h"

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
#include "base/log.h"
#include "keyspace/collection_limits.h"
#include "keyspace/keyspace.h"
#include "prompt/store.h"
#include "storage/storage.h"

namespace pion {
namespace {

constexpr unsigned kWorkerThreads = 4;     // slow work waits for disks as much as for cores
constexpr int64_t kDrainMs = 5000;         // a stop waits this long for replies that are owed
constexpr int64_t kUpkeepMs = 100, kUpkeepBusyMs = 1, kUpkeepBudgetUs = 1000;
constexpr uint64_t kOtherDescriptors = 512;  // files, listeners, descriptors passed to us

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
  shared_.services.notifications = &notifications_;
  shared_.journal = &storage.journal();
  shared_.extents = &storage.extents();
  set_live(shared_.live, settings);
  workers_ = std::make_unique<WorkerPool>(kWorkerThreads);
  shared_.workers = workers_.get();
  const auto count = static_cast<unsigned>(std::max<int64_t>(settings.workers, 1));
  for (unsigned i = 0; i < count; ++i) {
    threads_.push_back(std::make_unique<IoThread>(shared_, i));
    shared_.threads.push_back(threads_.back().get());
  }
  balancer_ = std::make_unique<Balancer>(shared_.threads);
  hook_options();
}

Server::~Server() { workers_.reset(); }

void Server::set_planes(Keyspace* keyspace, PromptStore* prompt) {
  shared_.services.keyspace = keyspace;
  shared_.services.prompt = prompt;
  keyspace->set_observer(&notifications_);
  set_memory_limits(options_.settings());
}

void Server::hook_options() {
  const auto live = [this](const Settings& settings) -> Status { return set_live(shared_.live, settings), Status{}; };
  for (std::string_view name : {"timeout", "tcp-keepalive", "proto-max-bulk-len", "client-query-buffer-limit", "client-output-buffer-limit", "requirepass"}) {
    options_.on_change(name, live);
  }
  options_.on_change("maxclients", [this](const Settings& settings) -> Status {
    const auto wanted = static_cast<uint64_t>(settings.maxclients);
    const uint64_t limit = raise_descriptor_limit(wanted + kOtherDescriptors);
    if (limit < wanted + kOtherDescriptors) {
      return fail(ErrorCode::kTooLarge, "The operating system is not able to handle the specified number of clients, try with " +
                                            std::to_string(limit > kOtherDescriptors ? limit - kOtherDescriptors : 1));
    }
    shared_.live.max_clients = wanted;
    return {};
  });
  options_.on_change("appendfsync", [this](const Settings& settings) -> Status {
    storage_.journal().set_mode(settings.sync_mode());
    return {};
  });
  options_.on_change("prompt-budget", [this](const Settings& settings) -> Status {
    shared_.services.prompt->set_budget(settings.prompt_budget_bytes);
    return {};
  });
  const auto memory = [this](const Settings& settings) -> Status { return set_memory_limits(settings), Status{}; };
  for (std::string_view name : {"maxmemory", "maxmemory-policy", "maxmemory-samples", "lfu-log-factor", "lfu-decay-time", "active-expire",
                                "hash-max-listpack-entries", "hash-max-listpack-value", "list-max-listpack-size",
                                "list-compress-depth", "zset-max-listpack-entries", "zset-max-listpack-value",
                                "set-max-intset-entries", "set-max-listpack-entries", "set-max-listpack-value", "hll-sparse-max-bytes",
                                "stream-node-max-bytes", "stream-node-max-entries", "notify-keyspace-events"}) {
    options_.on_change(name, memory);
  }
}

void Server::set_memory_limits(const Settings& settings) {
  KeyspaceSettings& limits = shared_.services.keyspace->settings;
  limits.policy = eviction_policy_of(settings.maxmemory_policy).value_or(EvictionPolicy::kNoEviction);
  limits.samples = static_cast<uint32_t>(settings.maxmemory_samples);
  limits.lfu_log_factor = static_cast<uint32_t>(settings.lfu_log_factor);
  limits.lfu_decay_minutes = static_cast<uint32_t>(settings.lfu_decay_minutes);
  limits.active_expire = settings.active_expire;
  limits.hll_sparse_max_bytes = settings.hll_sparse_max_bytes;
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

// Expiry, eviction and what FLUSH left to free: a thread of its own, so that no reactor waits for it.
void Server::maintain() {
  pthread_setname_np(pthread_self(), "pion-upkeep");
  std::unique_lock lock(upkeep_mutex_);
  while (!upkeep_stop_) {
    lock.unlock();
    const bool more = shared_.services.keyspace->maintain(kUpkeepBudgetUs);
    if (ready_keys != 0) shared_.services.keyspace->serve_waiters();
    lock.lock();
    upkeep_wake_.wait_for(lock, std::chrono::milliseconds(more ? kUpkeepBusyMs : kUpkeepMs), [this] { return upkeep_stop_; });
  }
}

Status Server::open_sockets() {
  const Settings settings = options_.settings();
  const auto wanted = static_cast<uint64_t>(settings.maxclients) + kOtherDescriptors;
  if (const uint64_t limit = raise_descriptor_limit(wanted); limit < wanted) {
    const uint64_t clients = limit > kOtherDescriptors ? limit - kOtherDescriptors : 1;
    log_warning("the limit of open files is " + std::to_string(limit) + ": at most " + std::to_string(clients) + " clients");
    shared_.live.max_clients = clients;
  }
  const auto backlog = static_cast<int>(settings.tcp_backlog);
  Reactor& reactor = threads_[0]->reactor();
  const auto sink = [this](Accepted accepted, bool unix_socket) { add_client(std::move(accepted), unix_socket); };
  for (const std::string& word : settings.port > 0 ? settings.bind : std::vector<std::string>{}) {
    // As Redis: "-" before an address means it may be missing, "*" every address.
    const bool optional = word.starts_with('-');
    std::string host = optional ? word.substr(1) : word;
    if (host == "*") host = "0.0.0.0";
    if (host == "::*") host = "::";
    auto fd = listen_tcp(host, static_cast<uint16_t>(settings.port), backlog);
    if (!fd && optional) {
      log_notice(fd.error().message);
      continue;
    }
    if (!fd) return std::unexpected(fd.error());
    tcp_port_ = local_port(fd->get());
    listeners_.push_back(std::make_unique<Listener>(reactor, std::move(*fd), "", sink));
  }
  if (!settings.unixsocket.empty()) {
    auto fd = listen_unix(settings.unixsocket, backlog, static_cast<unsigned>(settings.unixsocketperm));
    if (!fd) return std::unexpected(fd.error());
    unix_socket_ = settings.unixsocket;
    listeners_.push_back(std::make_unique<Listener>(reactor, std::move(*fd), unix_socket_, sink));
  }
  if (listeners_.empty()) return fail(ErrorCode::kInvalid, "neither a port nor a Unix socket to listen on");
  return {};
}

void Server::start() {
  storage_.journal().set_progress_listener([this] {
    for (const auto& thread : threads_) thread->post_journal_progress();
  });
  if (threads_.size() > 1) threads_[0]->reactor().post([this] { balance(); });
  for (const auto& listener : listeners_) threads_[0]->reactor().post([&listener = *listener] { listener.start(); });
  for (const auto& thread : threads_) thread->start();
  upkeep_ = std::thread([this] { maintain(); });
}

void Server::stop() {
  threads_[0]->reactor().post([this] {
    for (const auto& listener : listeners_) listener->stop();
  });
  for (const auto& thread : threads_) thread->post_drain(kDrainMs);
  for (const auto& thread : threads_) thread->join();
  {
    std::lock_guard lock(upkeep_mutex_);
    upkeep_stop_ = true;
  }
  upkeep_wake_.notify_all();
  if (upkeep_.joinable()) upkeep_.join();
  workers_.reset();  // a worker that still runs uses its connection: they go after it
  if (!unix_socket_.empty()) ::unlink(unix_socket_.c_str());
}

// On thread 0.
void Server::balance() {
  balancer_->step(clock_ns(CLOCK_MONOTONIC));
  threads_[0]->reactor().after(Balancer::kStepMs, [this] { balance(); });
}

// On thread 0.
void Server::add_client(Accepted accepted, bool unix_socket) {
  if (shared_.clients.count() >= shared_.live.max_clients.load(std::memory_order_relaxed)) {
    static constexpr std::string_view kFull = "-ERR max number of clients reached\r\n";
    [[maybe_unused]] ssize_t ignored = ::send(accepted.fd.get(), kFull.data(), kFull.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    rejected_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const unsigned best = balancer_->thread_for_new_client();
  const uint64_t id = shared_.last_client_id.fetch_add(1, std::memory_order_relaxed) + 1;
  shared_.clients.add(id, best);
  threads_[best]->post_connection(std::move(accepted), unix_socket, id);
}

ServerStats Server::stats() const {
  ServerStats stats;
  stats.start_wall_ms = start_wall_ms_;
  for (const auto& thread : threads_) {
    const ThreadCounters& counters = thread->counters();
    stats.connections_received += counters.connections_received.load(std::memory_order_relaxed);
    stats.commands_processed += counters.commands_processed.load(std::memory_order_relaxed);
    stats.net_input_bytes += counters.net_input_bytes.load(std::memory_order_relaxed);
    stats.net_output_bytes += counters.net_output_bytes.load(std::memory_order_relaxed);
    stats.connected_clients += counters.connected.load(std::memory_order_relaxed);
    stats.blocked_clients += counters.blocked.load(std::memory_order_relaxed);
    stats.output_limit_disconnections += counters.output_limit_disconnections.load(std::memory_order_relaxed);
  }
  stats.connections_received -= base_.received;
  stats.commands_processed -= base_.commands;
  stats.net_input_bytes -= base_.in;
  stats.net_output_bytes -= base_.out;
  stats.rejected_connections = rejected_.load(std::memory_order_relaxed) - base_.rejected;
  stats.max_clients = shared_.live.max_clients;
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
  base_.commands += now.commands_processed;
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
  shared_.services.keyspace->settings.keeps_all_until_ms = 0;
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
