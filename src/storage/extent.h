// An extent that was opened: header verified, pinned while it lives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/payload_store.h"

namespace pion {

// Reads and checks the header in `file`. kCorrupt says what did not hold.
Result<std::shared_ptr<Extent>> open_extent(std::shared_ptr<File> file, Space space, ExtentRef ref, std::shared_ptr<PinTable> pins);

// The header of an extent as it stands on disk, padded to its pages.
std::string extent_header(Space space, ExtentRef ref, uint64_t payload_bytes, const std::vector<uint64_t>& checksums, std::string_view aux,
                          uint64_t aux_room);

}  // namespace pion
