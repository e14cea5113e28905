// The server: threads, listeners, and what commands may ask of it. Made and destroyed by main(), which owns the planes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/worker_pool.h"
#include "command/notifications.h"
#include "command/pubsub.h"
#include "command/slow_log.h"
#include "command/server_control.h"
#include "server/balancer.h"
#include "server/io_thread.h"
#include "server/listener.h"
#include "server/options.h"
#include "server/server_shared.h"

namespace pion {

class Server final : public ServerControl {
 public:
  Server(Options& options, Storage& storage);
  // After stop(). The planes must have let go of every Completion.
  ~Server() override;

  // Before start().
  void set_planes(Keyspace* keyspace, PromptStore* prompt);
  // Opens the sockets (so that a port in use stops the start before anything else runs).
  Status open_sockets();
  void start();
  // Takes no more clients, finishes what runs, sends what is owed, ends the threads. Main thread.
  void stop();
  // Whether a checkpoint is to be taken at the stop: what SHUTDOWN said, or `unless_told` when a signal stopped us.
  bool save_wanted(bool unless_told) const { return stopped_by_command_.load() ? save_wanted_.load() : unless_told; }

  ServerStats stats() const override;
  void reset_stats() override;
  std::vector<ConfigValue> config_get(std::string_view pattern) const override;
  Status config_set(const std::vector<ConfigValue>& values) override;
  Status config_rewrite() override;
  bool check_password(std::string_view user, std::string_view password) const override;
  bool password_required() const override;
  void clients(std::function<void(std::vector<ClientInfo>)> done) override;
  bool kill_client(uint64_t id) override;
  void pause_clients(int64_t duration_ms, bool only_writes) override;
  void unpause_clients() override;
  void unblock_client(uint64_t id, bool error, std::function<void(bool)> done) override;
  void shutdown(bool save) override;

 private:
  void balance();
  // server_sockets.cc. Listeners by "address port".
  using TcpListeners = std::map<std::string, std::unique_ptr<Listener>>;
  std::unique_ptr<Listener> make_listener(UniqueFd fd, const std::string& unix_path);
  // Those of `settings` that are not open yet; `places` becomes what all of them are.
  Result<TcpListeners> open_tcp(const Settings& settings, std::set<std::string>& places);
  Status listen_anew(const Settings& settings, std::string_view refusal);
  void start_listening();
  void stop_listening();
  void add_client(Accepted accepted, bool unix_socket);
  Status set_max_clients(const Settings& settings);
  void hook_options();
  void set_memory_limits(const Settings& settings);
  void set_observing(const Settings& settings);
  void maintain();
  void measure_rates();
  void set_upkeep(const Settings& settings);
  void save_when_due();

  Options& options_;
  Storage& storage_;
  PubSub pubsub_;
  Notifications notifications_{pubsub_};
  MonitorFeed monitors_;
  SlowLog slow_log_;
  ServerShared shared_;
  std::unique_ptr<WorkerPool> workers_, patient_, journal_writer_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  TcpListeners tcp_listeners_;  // thread 0's from start() on
  std::unique_ptr<Listener> unix_listener_;
  std::set<std::string> tcp_places_;  // as they were asked for last; by whoever changes options
  std::unique_ptr<Balancer> balancer_;
  std::string unix_socket_;
  std::atomic<int> tcp_port_{0};
  uint64_t startup_memory_bytes_ = 0;
  const std::string run_id_;
  const int64_t start_wall_ms_;
  std::thread upkeep_;
  std::mutex upkeep_mutex_;
  std::condition_variable upkeep_wake_;
  bool upkeep_stop_ = false;
  int64_t upkeep_ms_ = 100, next_save_look_ms_ = 0;
  std::vector<Settings::SavePoint> save_points_;
  std::atomic<bool> stopped_by_command_{false}, save_wanted_{false};
  std::atomic<uint64_t> rejected_{0};
  struct Rates {
    int64_t at_us = 0;  // measured last
    uint64_t commands = 0, input = 0, output = 0;
    double commands_per_s = 0, input_kib_per_s = 0, output_kib_per_s = 0;
  } rates_;  // of the upkeep thread
  mutable std::mutex rates_mutex_;  // for those who read it
  struct Base {  // what CONFIG RESETSTAT takes off
    std::atomic<uint64_t> received{0}, ticks{0}, busy_us{0}, in{0}, out{0}, rejected{0};
  } base_;
};

}  // namespace pion
