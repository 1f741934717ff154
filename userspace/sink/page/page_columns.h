// The columns of the page's data (cowprof.page/2, docs/timeline.md): series of whole numbers as LEB128 varints, which
// gzip packs well and a browser unpacks on demand. Does not know what a column means.
#ifndef COWPROF_SINK_PAGE_PAGE_COLUMNS_H_
#define COWPROF_SINK_PAGE_PAGE_COLUMNS_H_

#include <cstdint>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/facts/sample.h"

namespace cowprof {

// Encodes value by value, so that a long series takes two or three bytes per value: code 0 is unknown, any other is the
// zigzag of the difference to the last known value, plus 1.
class Column {
 public:
  // A value of 2^52 or more, which a browser's numbers can't hold together with a sign, becomes unknown.
  void Add(const Count& value) {
    const bool same = value && *value == static_cast<uint64_t>(last_);  // as most are
    ++size_;
    if (same) {
      ++same_;
    } else {
      AddOther(value);
    }
  }
  // Adds unknown values until there are `size`.
  void FillTo(size_t size) {
    while (size_ < size) Add(std::nullopt);
  }
  // Keeps the later value of each pair of samples 2n and 2n + 1. The first value belongs to sample `first`; a value
  // without its pair at either end stays.
  void Halve(size_t first);
  size_t size() const { return size_; }
  const std::string& bytes() const;  // changes the column's buffers: one thread at a time

 private:
  void AddOther(const Count& value);
  void AppendSame() const;

  mutable std::string bytes_;  // all but the last `same_` values
  mutable size_t same_ = 0;    // values that equal the one before and are not in `bytes_` yet
  size_t size_ = 0;
  int64_t last_ = 0;
};

// The binary that holds the columns, one after another; in parts, since it is large.
class ColumnFile {
 public:
  ColumnFile() = default;
  ColumnFile(const ColumnFile&) = delete;  // parts_ points into columns_
  ColumnFile& operator=(const ColumnFile&) = delete;
  ColumnFile(ColumnFile&&) = default;
  // Both return what refers to the column in the JSON: [offset, bytes, count].
  nlohmann::ordered_json Append(Column column);
  nlohmann::ordered_json Refer(const Column& column);  // which must outlive the file, unchanged
  const std::vector<absl::string_view>& parts() const { return parts_; }

 private:
  std::deque<Column> columns_;
  std::vector<absl::string_view> parts_;
  size_t size_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_COLUMNS_H_
