// A listening socket on thread 0; hands each client to the thread with the fewest.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/reactor.h"
#include "io/socket.h"

namespace pion {

class Listener final : public EventHandler {
 public:
  // Takes a new client.
  using Sink = std::function<void(Accepted, bool unix_socket)>;

  // `unix_path` empty: TCP.
  Listener(Reactor& reactor, UniqueFd fd, std::string unix_path, Sink sink);
  ~Listener() override;

  // On the reactor's thread.
  void start();
  void stop();

  void on_readable() override;
  void on_writable() override {}

 private:
  Reactor& reactor_;
  UniqueFd fd_;
  const std::string unix_path_;
  const Sink sink_;
  bool listening_ = false;
  const std::shared_ptr<bool> life_ = std::make_shared<bool>(true);  // for timers that outlive it
};

}  // namespace pion
