#include "server/listener.h"

#include <utility>

#include "base/log.h"

namespace pion {
namespace {

constexpr int kAcceptsPerTick = 128;
constexpr int64_t kPauseMs = 100;  // after a failed accept (no descriptors left), which would come again at once

}  // namespace

Listener::Listener(Reactor& reactor, UniqueFd fd, std::string unix_path, Sink sink)
    : reactor_(reactor), fd_(std::move(fd)), unix_path_(std::move(unix_path)), sink_(std::move(sink)) {}

Listener::~Listener() = default;

void Listener::start() {
  if (Status added = reactor_.add(fd_.get(), this, {.read = true}); !added) {
    log_warning("cannot listen: " + added.error().message);
    return;
  }
  listening_ = true;
}

void Listener::stop() {
  if (!std::exchange(listening_, false)) return;
  reactor_.remove(fd_.get());
  fd_ = UniqueFd();
}

void Listener::on_readable() {
  for (int i = 0; i < kAcceptsPerTick; ++i) {
    auto accepted = unix_path_.empty() ? accept_tcp(fd_.get()) : accept_unix(fd_.get(), unix_path_);
    if (accepted) {
      sink_(std::move(*accepted), !unix_path_.empty());
      continue;
    }
    if (accepted.error().code == ErrorCode::kUnavailable) return;
    log_warning("a client was not accepted: " + accepted.error().message);
    if (!reactor_.change(fd_.get(), {})) return;
    reactor_.after(kPauseMs, [this, life = std::weak_ptr<bool>(life_)] {
      if (!life.expired() && listening_) static_cast<void>(reactor_.change(fd_.get(), {.read = true}));
    });
    return;
  }
}

}  // namespace pion
