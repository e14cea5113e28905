// Large arguments on their way to disk: the command table says which may, an extent takes them.
#pragma once

#include "command/context.h"
#include "resp/parser.h"
#include "storage/extents.h"

namespace pion {

// Stateless; one for all connections.
class PayloadTarget final : public StreamTarget {
 public:
  // Without services rows of prompts stream past the budget. They outlive this, and are filled before the first call.
  explicit PayloadTarget(ExtentStore& extents, const Services* services = nullptr) : extents_(extents), services_(services) {}
  std::unique_ptr<PayloadSink> open(const Arguments& before, uint64_t length) override;

 private:
  ExtentStore& extents_;
  const Services* services_;
};

}  // namespace pion
