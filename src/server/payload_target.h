// Large arguments on their way to disk: the command table says which may, an extent takes them.
#pragma once

#include "resp/parser.h"
#include "storage/extents.h"

namespace pion {

// Stateless; one for all connections.
class PayloadTarget final : public StreamTarget {
 public:
  explicit PayloadTarget(ExtentStore& extents) : extents_(extents) {}
  std::unique_ptr<PayloadSink> open(const Arguments& before, uint64_t length) override;

 private:
  ExtentStore& extents_;
};

}  // namespace pion
