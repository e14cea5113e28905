#include "storage/extent.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/page_buffer.h"

namespace pion {
namespace {

constexpr uint64_t kFirstRead = 16 * kKiB;  // most headers, in one read
constexpr uint64_t kLookChunks = 16;        // looked at where they lie in memory, at a time

std::string place(ExtentRef ref) { return "extent " + std::to_string(ref.file) + ":" + std::to_string(ref.page) + "+" + std::to_string(ref.pages); }

class OpenExtent final : public Extent, public std::enable_shared_from_this<OpenExtent> {
 public:
  OpenExtent(std::shared_ptr<File> file, ExtentRef ref, const ExtentHeader& header, std::vector<uint64_t> checksums, std::string aux,
             std::shared_ptr<PinTable> pins)
      : file_(std::move(file)), ref_(ref), header_(header), checksums_(std::move(checksums)), aux_(std::move(aux)), pins_(std::move(pins)) {
    pins_->pin(ref_);
  }
  ~OpenExtent() override { pins_->unpin(ref_); }
  OpenExtent(const OpenExtent&) = delete;
  OpenExtent& operator=(const OpenExtent&) = delete;

  ExtentRef ref() const override { return ref_; }
  uint64_t payload_bytes() const override { return header_.payload_bytes; }
  std::string_view aux() const override { return aux_; }
  const std::vector<uint64_t>& chunk_checksums() const override { return checksums_; }
  uint64_t payload_offset() const override { return (static_cast<uint64_t>(ref_.page) + header_.header_pages) * kPageBytes; }
  int fd() const override { return file_->fd(); }

  Status read(uint64_t offset, uint64_t length, char* to) override { return for_chunks(offset, length, to); }
  Status verify(uint64_t offset, uint64_t length) override {
    PION_TRY(check_range(offset, length));
    const std::shared_ptr<const FileMapping> mapping = file_->mapping(payload_offset() + header_.payload_bytes);
    const uint64_t end = offset + length;
    for (uint64_t at = offset; at < end;) {
      const uint64_t next = std::min(end, (at / kChunkBytes + kLookChunks) * kChunkBytes);
      if (!mapping || !verify_mapped(*mapping, at, next)) PION_TRY(for_chunks(at, next - at, nullptr));
      at = next;
    }
    return {};
  }

  FileSlice slice(uint64_t offset, uint64_t length) override {
    return {.pin = shared_from_this(), .fd = file_->fd(), .offset = payload_offset() + offset, .length = length};
  }

 private:
  Status check_range(uint64_t offset, uint64_t length) const {
    if (offset > header_.payload_bytes || length > header_.payload_bytes - offset) {
      return fail(ErrorCode::kInvalid, place(ref_) + " has " + std::to_string(header_.payload_bytes) + " bytes, asked for " +
                                           std::to_string(length) + " at " + std::to_string(offset));
    }
    return {};
  }

  // True: the chunks that [from, to) touches, at most kLookChunks, lie in memory and carry their checksums.
  bool verify_mapped(const FileMapping& mapping, uint64_t from, uint64_t to) const {
    struct Sums {
      const uint64_t* expected;
      bool equal = true;
    } sums{checksums_.data() + from / kChunkBytes};
    const uint64_t begin = from / kChunkBytes * kChunkBytes;
    const uint64_t end = std::min((to + kChunkBytes - 1) / kChunkBytes * kChunkBytes, header_.payload_bytes);
    const auto look = [](std::string_view bytes, void* context) {
      Sums& against = *static_cast<Sums*>(context);
      for (const uint64_t* sum = against.expected; !bytes.empty(); ++sum) {
        const std::string_view chunk = bytes.substr(0, kChunkBytes);
        against.equal &= xxh3(chunk) == *sum;
        bytes.remove_prefix(chunk.size());
      }
    };
    return mapping.look(payload_offset() + begin, end - begin, look, &sums) && sums.equal;
  }

  // Chunk by chunk, each hashed while the cache still has it; whole chunks go straight to where they are wanted.
  Status for_chunks(uint64_t offset, uint64_t length, char* to) {
    PION_TRY(check_range(offset, length));
    if (length == 0) return {};
    static thread_local const PageBuffer buffer(kChunkBytes);
    const uint64_t end = offset + length;
    for (uint64_t chunk = offset / kChunkBytes; chunk * kChunkBytes < end; chunk++) {
      const uint64_t begin = chunk * kChunkBytes;
      const uint64_t size = std::min(kChunkBytes, header_.payload_bytes - begin);
      const uint64_t from = std::max(begin, offset);
      const uint64_t until = std::min(begin + size, end);
      const bool whole = to && from == begin && until == begin + size;
      char* const place_in_memory = whole ? to + (begin - offset) : buffer.get();
      const Result<size_t> got = file_->pread(place_in_memory, size, payload_offset() + begin);
      if (!got) return fail(ErrorCode::kCorrupt, place(ref_) + ", chunk " + std::to_string(chunk) + ": " + got.error().message);
      if (*got < size || xxh3({place_in_memory, size}) != checksums_[chunk]) {
        return fail(ErrorCode::kCorrupt, place(ref_) + ", chunk " + std::to_string(chunk) + ": the checksum does not hold");
      }
      if (to && !whole) std::memcpy(to + (from - offset), buffer.get() + (from - begin), until - from);
    }
    return {};
  }

  const std::shared_ptr<File> file_;
  const ExtentRef ref_;
  const ExtentHeader header_;
  const std::vector<uint64_t> checksums_;
  const std::string aux_;
  const std::shared_ptr<PinTable> pins_;
};

// Says what is wrong with the fields, or nullptr.
const char* wrong_field(const ExtentHeader& header, Space space, ExtentRef ref) {
  if (header.magic != kExtentMagic) return "no extent begins there";
  if (header.version != kFormatVersion) return "its version is unknown";
  if (header.file != ref.file || header.page != ref.page || header.pages != ref.pages) return "its header is another extent's";
  if (header.space != static_cast<uint32_t>(space)) return "it belongs to another space";
  if (header.header_pages == 0 || header.header_pages > header.pages) return "its header is longer than itself";
  const uint64_t payload_room = (static_cast<uint64_t>(header.pages) - header.header_pages) * kPageBytes;
  if (header.payload_bytes > payload_room) return "its payload is longer than its pages";
  if (header.aux_bytes > header.aux_room) return "its owner's bytes are longer than their place";
  if (extent_header_bytes(header.payload_bytes, header.aux_room) > header.header_pages * kPageBytes) return "its header does not fit its pages";
  return nullptr;
}

}  // namespace

Result<std::shared_ptr<Extent>> open_extent(std::shared_ptr<File> file, Space space, ExtentRef ref, std::shared_ptr<PinTable> pins) {
  static thread_local std::string buffer;
  const uint64_t at = static_cast<uint64_t>(ref.page) * kPageBytes;
  const auto read = [&](uint64_t want) -> Status {
    buffer.resize(want);
    const Result<size_t> got = file->pread(buffer.data(), want, at);
    if (!got) return fail(ErrorCode::kCorrupt, place(ref) + ": " + got.error().message);
    buffer.resize(*got);
    return {};
  };
  PION_TRY(read(std::min(kFirstRead, ref.pages * kPageBytes)));
  ExtentHeader header{};
  if (buffer.size() >= sizeof header) std::memcpy(&header, buffer.data(), sizeof header);
  if (const char* wrong = wrong_field(header, space, ref)) return fail(ErrorCode::kCorrupt, place(ref) + ": " + wrong);

  const uint64_t bytes = extent_header_bytes(header.payload_bytes, header.aux_room);
  if (bytes > buffer.size()) PION_TRY(read(bytes));
  if (bytes > buffer.size()) return fail(ErrorCode::kCorrupt, place(ref) + ": the file ends inside its header");
  const std::string_view view = std::string_view(buffer).substr(0, bytes);
  if (load_le<uint64_t>(view.data() + bytes - 8) != xxh3(view.substr(0, bytes - 8))) {
    return fail(ErrorCode::kCorrupt, place(ref) + ": the checksum of its header does not hold");
  }
  std::vector<uint64_t> checksums(chunks_of(header.payload_bytes));
  if (!checksums.empty()) std::memcpy(checksums.data(), view.data() + sizeof header, checksums.size() * 8);
  std::string aux(view.substr(sizeof header + checksums.size() * 8, header.aux_bytes));
  if (buffer.capacity() > kMiB) std::string().swap(buffer);
  return std::make_shared<OpenExtent>(std::move(file), ref, header, std::move(checksums), std::move(aux), std::move(pins));
}

std::string extent_header(Space space, ExtentRef ref, uint64_t payload_bytes, const std::vector<uint64_t>& checksums, std::string_view aux,
                          uint64_t aux_room) {
  const uint64_t bytes = extent_header_bytes(payload_bytes, aux_room);
  const auto header_pages = static_cast<uint32_t>((bytes + kPageBytes - 1) / kPageBytes);
  const ExtentHeader header{.magic = kExtentMagic,
                            .version = kFormatVersion,
                            .space = static_cast<uint32_t>(space),
                            .file = ref.file,
                            .page = ref.page,
                            .pages = ref.pages,
                            .header_pages = header_pages,
                            .payload_bytes = payload_bytes,
                            .aux_bytes = static_cast<uint32_t>(aux.size()),
                            .aux_room = static_cast<uint32_t>(aux_room)};
  std::string out(header_pages * kPageBytes, '\0');
  std::memcpy(out.data(), &header, sizeof header);
  if (!checksums.empty()) std::memcpy(out.data() + sizeof header, checksums.data(), checksums.size() * 8);
  std::memcpy(out.data() + sizeof header + checksums.size() * 8, aux.data(), aux.size());
  store_le(out.data() + bytes - 8, xxh3(std::string_view(out).substr(0, bytes - 8)));
  return out;
}

}  // namespace pion
