// Keyspace notifications: what commands, expiry and eviction do to keys, published on __keyspace@<db>__:<key> and __keyevent@<db>__:<event>.
//
// A message leaves behind the record of the change it tells of, and messages about one key come in the order of its changes: they are
// collected while the keys are locked, and published when the record is appended, before the locks go.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "command/pubsub.h"
#include "keyspace/keyspace.h"

namespace pion {

// The value of notify-keyspace-events: KeyEvent bits, and the two forms.
inline constexpr uint32_t kKeyspaceForm = 1U << 30, kKeyeventForm = 1U << 31;
// Empty: a letter that means nothing.
std::optional<uint32_t> parse_event_classes(std::string_view letters);
// As Redis prints it, which leaves out n, o and c beside A; `whole` leaves out nothing.
std::string format_event_classes(uint32_t classes, bool whole = false);
// What the keyspace has to tell: nothing without one of the forms.
inline uint32_t wanted_events(uint32_t classes) {
  return classes & (kKeyspaceForm | kKeyeventForm) ? classes & ~(kKeyspaceForm | kKeyeventForm) : 0;
}

class Notifications final : public KeyspaceObserver {
 public:
  explicit Notifications(PubSub& hub) : hub_(hub) {}

  void set_classes(uint32_t classes) { classes_.store(classes, std::memory_order_relaxed); }

  bool event(KeyEvent kind, std::string_view name, int database, std::string_view key) override;
  void journalled(Lsn required) override;

  // PUBLISH in a transaction: among this thread's notifications, in the order of the commands. Whoever calls it calls journalled()
  // when the transaction is over.
  void publish_later(SubscriptionKind kind, std::string_view channel, std::string_view payload);

 private:
  PubSub& hub_;
  std::atomic<uint32_t> classes_{0};
};

}  // namespace pion
