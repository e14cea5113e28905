// The newest checkpoint, read again while the server runs (DEBUG RELOAD).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "io/filesystem.h"
#include "storage/journal.h"

namespace pion {

// Calls visit for each section of a plane, in the file's order, its checksum verified; visit's error ends the walk. `dir` is the
// data directory, `seed` its storage's. kNotFound: there is no checkpoint; kCorrupt: the newest one is not whole. Not on a
// reactor thread.
Status read_newest_checkpoint(FileSystem& files, const std::string& dir, uint64_t seed, std::string_view plane,
                              const std::function<Status(uint32_t number, Lsn lsn, std::string_view body)>& visit);

}  // namespace pion
