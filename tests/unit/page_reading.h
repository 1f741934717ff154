// Reads the page's data as docs/timeline.md defines it. Written independently of the code that makes it, so that the
// two can disagree.
#ifndef COWPROF_TESTS_UNIT_PAGE_READING_H_
#define COWPROF_TESTS_UNIT_PAGE_READING_H_

#include <zlib.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "model/facts/sample.h"

namespace cowprof {

using OrderedJson = nlohmann::ordered_json;

// Decodes like a browser does: in doubles, each step of which must be exact.
inline std::vector<std::optional<double>> ReadColumn(absl::string_view bytes, size_t count) {
  std::vector<std::optional<double>> values;
  double last = 0;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    double code = 0, scale = 1;
    for (bool more = true; more; scale *= 128) {
      REQUIRE(at < bytes.size());
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      more = byte >= 128;
      code += (byte % 128) * scale;
    }
    if (code == 0) {
      values.push_back(std::nullopt);
      continue;
    }
    const bool odd = static_cast<uint64_t>(code) % 2 == 1;
    last += odd ? (code - 1) / 2 : -code / 2;
    values.push_back(last);
  }
  REQUIRE(at == bytes.size());
  return values;
}

struct PageReading {
  OrderedJson json;
  std::string binary;

  explicit PageReading(const std::string& data) {
    const size_t newline = data.find('\n');
    REQUIRE(newline != std::string::npos);
    json = OrderedJson::parse(data.substr(0, newline), nullptr, false);
    REQUIRE(json.is_object());
    binary = data.substr(newline + 1);
  }

  std::vector<std::optional<double>> Column(const OrderedJson& column) const {
    REQUIRE(column.is_array());
    REQUIRE(column.size() == 3);
    const size_t offset = column[0], bytes = column[1];
    REQUIRE(offset + bytes <= binary.size());
    return ReadColumn(absl::string_view(binary).substr(offset, bytes), column[2]);
  }
  // All values must be present.
  std::vector<uint64_t> Numbers(const OrderedJson& column) const {
    std::vector<uint64_t> numbers;
    for (const std::optional<double>& value : Column(column)) {
      REQUIRE(value);
      numbers.push_back(static_cast<uint64_t>(*value));
    }
    return numbers;
  }
};

inline std::string Unpacked(const std::string& packed) {
  std::string gzip, out(1 << 26, '\0');
  REQUIRE(absl::Base64Unescape(packed, &gzip));
  z_stream stream = {};
  REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(gzip.data());
  stream.avail_in = gzip.size();
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = out.size();
  REQUIRE(inflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_PAGE_READING_H_
