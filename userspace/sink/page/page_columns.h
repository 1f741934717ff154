// The columns of the page's data (cowprof.page/2, docs/timeline.md): series of whole numbers as LEB128 varints, which
// gzip packs well and a browser unpacks on demand. Does not know what a column means.
#ifndef COWPROF_SINK_PAGE_PAGE_COLUMNS_H_
#define COWPROF_SINK_PAGE_PAGE_COLUMNS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/facts/sample.h"

namespace cowprof {

// Encodes value by value, so that a long series takes two or three bytes per value: code 0 is unknown, any other is the
// zigzag of the difference to the last known value, plus 1.
class Column {
 public:
  // A value of 2^52 or more, which a browser's numbers can't hold together with a sign, becomes unknown.
  void Add(const Count& value);
  // Adds unknown values until there are `size`.
  void FillTo(size_t size);
  // Keeps the later value of each pair of samples 2n and 2n + 1. The first value belongs to sample `first`; a value
  // without its pair at either end stays.
  void Halve(size_t first);
  size_t size() const { return size_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  size_t size_ = 0;
  int64_t last_ = 0;
};

// The binary that holds the columns, one after another.
class ColumnFile {
 public:
  // Returns what refers to the column in the JSON: [offset, bytes, count].
  nlohmann::ordered_json Append(const Column& column);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_COLUMNS_H_
