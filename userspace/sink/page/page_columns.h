// The columns of the page's data (cowprof.page/2, docs/timeline.md): series of whole numbers as LEB128 varints, which
// gzip packs well and a browser unpacks on demand. Called by page_*.cc. Knows nothing of what a column means.
#ifndef COWPROF_SINK_PAGE_PAGE_COLUMNS_H_
#define COWPROF_SINK_PAGE_PAGE_COLUMNS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/facts/sample.h"

namespace cowprof {

// Encoded value by value, so that a long series takes two or three bytes a value: code 0 is unknown, otherwise
// code - 1 is the zigzag of the difference to the last known value.
class Column {
 public:
  // What a browser's numbers could not hold together with a sign (2^52 and more) is unknown.
  void Add(const Count& value);
  // Unknown values, until there are `size`.
  void FillTo(size_t size);
  // Of each two neighbours the later one stays; the first value is the one of sample `first`, and what began with an
  // odd one, or ends with an even one, has no neighbour there.
  void Halve(size_t first);
  size_t size() const { return size_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  size_t size_ = 0;
  int64_t last_ = 0;
};

// The binary that columns stand in, one after the other.
class ColumnFile {
 public:
  // The key of the column in the JSON: [offset, bytes, count].
  nlohmann::ordered_json Append(const Column& column);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_COLUMNS_H_
