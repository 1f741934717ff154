// libdeflate takes a quarter of zlib's time for the same size, but wants its input in one piece.
#include "sink/gzip.h"

#include <libdeflate.h>

#include <algorithm>
#include <memory>

namespace cowprof {

std::string Gzip(absl::Span<const absl::string_view> parts, int level) {
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(level), libdeflate_free_compressor);
  if (compressor == nullptr) return "";
  size_t size = 0;
  for (const absl::string_view part : parts) size += part.size();
  // Not initialised: pages that are not written to are never there.
  const std::unique_ptr<char[]> whole(new char[size]);
  char* end = whole.get();
  for (const absl::string_view part : parts) end = std::copy(part.begin(), part.end(), end);
  const size_t most = libdeflate_gzip_compress_bound(compressor.get(), size);
  const std::unique_ptr<char[]> packed(new char[most]);
  return std::string(packed.get(), libdeflate_gzip_compress(compressor.get(), whole.get(), size, packed.get(), most));
}

}  // namespace cowprof
