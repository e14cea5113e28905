#include "storage/checkpoint_reader.h"

#include "storage/checkpoint.h"

namespace pion {

Status read_newest_checkpoint(FileSystem& files, const std::string& dir, uint64_t seed, std::string_view plane,
                              const std::function<Status(uint32_t number, Lsn lsn, std::string_view body)>& visit) {
  const std::string folder = dir + "/checkpoint";
  const Result<std::vector<std::string>> names = files.list(folder);
  if (!names) return std::unexpected(names.error());
  std::string newest;
  Lsn newest_lsn = 0;
  for (const std::string& name : *names) {
    Lsn lsn = 0;
    if (parse_lsn_name(name, ".ckpt", lsn) && (newest.empty() || lsn > newest_lsn)) newest = name, newest_lsn = lsn;
  }
  if (newest.empty()) return fail(ErrorCode::kNotFound, "there is no checkpoint in " + folder);
  Result<std::unique_ptr<File>> file = files.open(folder + "/" + newest, OpenMode::kRead);
  if (!file) return std::unexpected(file.error());
  const CheckpointIndex index = index_checkpoint(std::move(*file), newest, newest_lsn, seed);
  if (!index.whole) return fail(ErrorCode::kCorrupt, folder + "/" + newest + " is damaged");
  std::string buffer;
  for (const CheckpointSection& section : index.sections) {
    if (section.plane != plane) continue;
    const Result<std::string_view> body = read_section(*index.file, section, buffer);
    if (!body) return std::unexpected(body.error());
    PION_TRY(visit(section.number, section.lsn, *body));
  }
  return {};
}

}  // namespace pion
