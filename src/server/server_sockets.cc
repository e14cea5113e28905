// The server's listening sockets: opened before it starts, changed by CONFIG SET port and bind.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "server/server.h"

namespace pion {
namespace {

constexpr uint64_t kOtherDescriptors = 512;  // files, listeners, descriptors passed to us

}  // namespace

Status Server::set_max_clients(const Settings& settings) {
  const auto wanted = static_cast<uint64_t>(settings.maxclients);
  const uint64_t limit = raise_descriptor_limit(wanted + kOtherDescriptors);
  if (limit < wanted + kOtherDescriptors) {
    return fail(ErrorCode::kTooLarge, "The operating system is not able to handle the specified number of clients, try with " +
                                          std::to_string(limit > kOtherDescriptors ? limit - kOtherDescriptors : 1));
  }
  shared_.live.max_clients = wanted;
  return {};
}

std::unique_ptr<Listener> Server::make_listener(UniqueFd fd, const std::string& unix_path) {
  const auto sink = [this](Accepted accepted, bool unix_socket) { add_client(std::move(accepted), unix_socket); };
  return std::make_unique<Listener>(threads_[0]->reactor(), std::move(fd), unix_path, sink);
}

Result<Server::TcpListeners> Server::open_tcp(const Settings& settings, std::set<std::string>& places) {
  TcpListeners opened;
  for (const std::string& word : settings.port > 0 ? settings.bind : std::vector<std::string>{}) {
    // As Redis: "-" before an address means it may be missing, "*" every address.
    const bool optional = word.starts_with('-');
    std::string host = optional ? word.substr(1) : word;
    if (host == "*") host = "0.0.0.0";
    if (host == "::*") host = "::";
    const std::string place = host + " " + std::to_string(settings.port);
    if (!places.insert(place).second || tcp_places_.contains(place)) continue;
    auto fd = listen_tcp(host, static_cast<uint16_t>(settings.port), static_cast<int>(settings.tcp_backlog));
    if (!fd && optional) {
      log_notice(fd.error().message);
      places.erase(place);
      continue;
    }
    if (!fd) return std::unexpected(fd.error());
    opened.emplace(place, make_listener(std::move(*fd), ""));
  }
  return opened;
}

Status Server::open_sockets() {
  const Settings settings = options_.settings();
  const auto wanted = static_cast<uint64_t>(settings.maxclients) + kOtherDescriptors;
  if (const uint64_t limit = raise_descriptor_limit(wanted); limit < wanted) {
    const uint64_t clients = limit > kOtherDescriptors ? limit - kOtherDescriptors : 1;
    log_warning("the limit of open files is " + std::to_string(limit) + ": at most " + std::to_string(clients) + " clients");
    shared_.live.max_clients = clients;
  }
  std::set<std::string> places;
  auto opened = open_tcp(settings, places);
  if (!opened) return std::unexpected(opened.error());
  tcp_listeners_ = std::move(*opened);
  tcp_places_ = std::move(places);
  tcp_port_ = tcp_places_.empty() ? 0 : static_cast<int>(settings.port);
  if (!settings.unixsocket.empty()) {
    auto fd = listen_unix(settings.unixsocket, static_cast<int>(settings.tcp_backlog), static_cast<unsigned>(settings.unixsocketperm));
    if (!fd) return std::unexpected(fd.error());
    unix_socket_ = settings.unixsocket;
    unix_listener_ = make_listener(std::move(*fd), unix_socket_);
  }
  if (tcp_listeners_.empty() && !unix_listener_) return fail(ErrorCode::kInvalid, "neither a port nor a Unix socket to listen on");
  return {};
}

// The new ones are open before an old one goes, and one that is wanted still stays as it is. One call at a time.
Status Server::listen_anew(const Settings& settings, std::string_view refusal) {
  std::set<std::string> places;
  auto opened = open_tcp(settings, places);
  if (!opened || (places.empty() && settings.port > 0)) {
    log_warning("CONFIG SET: " + (opened ? "no address to listen on" : opened.error().message));
    return fail(ErrorCode::kInvalid, std::string(refusal));
  }
  tcp_places_ = places;
  tcp_port_ = places.empty() ? 0 : static_cast<int>(settings.port);
  // The listeners are thread 0's.
  auto fresh = std::make_shared<TcpListeners>(std::move(*opened));
  threads_[0]->reactor().post([this, fresh, places] {
    for (auto listener = tcp_listeners_.begin(); listener != tcp_listeners_.end();) {
      if (places.contains(listener->first)) {
        ++listener;
        continue;
      }
      listener->second->stop();
      // Not before the events of this tick, which may name it.
      threads_[0]->reactor().post([old = std::shared_ptr<Listener>(std::move(listener->second))] {});
      listener = tcp_listeners_.erase(listener);
    }
    for (auto& [place, listener] : *fresh) {
      listener->start();
      tcp_listeners_.insert_or_assign(place, std::move(listener));
    }
  });
  return {};
}

void Server::start_listening() {
  for (const auto& [place, listener] : tcp_listeners_) listener->start();
  if (unix_listener_) unix_listener_->start();
}

void Server::stop_listening() {
  for (const auto& [place, listener] : tcp_listeners_) listener->stop();
  if (unix_listener_) unix_listener_->stop();
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

}  // namespace pion
