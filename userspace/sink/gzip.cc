#include "sink/gzip.h"

#include <zlib.h>

#include <array>

namespace cowprof {

std::string Gzip(absl::Span<const absl::string_view> parts, int level) {
  z_stream stream = {};
  // 15 window bits, + 16 for a gzip header.
  if (deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) return "";
  std::string out;
  std::array<char, 64 << 10> piece;
  const auto deflate_all = [&](absl::string_view part, int flush) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    stream.avail_in = part.size();
    do {
      stream.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_out = piece.size();
      deflate(&stream, flush);
      out.append(piece.data(), piece.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  };
  for (const absl::string_view part : parts) deflate_all(part, Z_NO_FLUSH);
  deflate_all("", Z_FINISH);
  deflateEnd(&stream);
  return out;
}

}  // namespace cowprof
