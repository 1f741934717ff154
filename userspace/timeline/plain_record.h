// Reads the rows of a sample without building a tree, if they have the grammar in which cowprof writes them: rows are
// the bulk of a recording. Leaves everything else to the JSON parser, so that a record means the same whoever wrote it.
// Spells no key of a list.
//
//   {"t":1.5,"type":"sample","KEY":[[7,null,"text",0.25,[1,2]],...],...}
//
// Plain: no white space, sign, exponent or escape, only ASCII, integers of at most 19 digits, fractions of at most 15
// digits in all, no lists deeper than that, and no key twice.
#ifndef COWPROF_TIMELINE_PLAIN_RECORD_H_
#define COWPROF_TIMELINE_PLAIN_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "timeline/json_fields.h"

namespace cowprof {

struct PlainCell {
  enum class Kind : uint32_t { kNull, kCount, kReal, kText, kList };
  Kind kind = Kind::kNull;
  uint32_t size = 0;  // of a text or a list
  union {
    uint64_t count = 0;  // of a list: the number of its first cell
    double real;
    const char* text;
  };
};

// Valid until its record is read anew.
struct PlainRow {
  absl::Span<const PlainCell> cells;
  const PlainCell* inner = nullptr;  // cells of the lists in rows
};

class PlainRecord {
 public:
  // False: `record` is not a sample of this form. Keeps pointers into `record`.
  bool Read(absl::string_view record);
  double t() const { return t_; }
  // The members that are not lists of plain rows, as a JSON object; "": there are none. Not validated.
  const std::string& rest() const { return rest_; }
  // Calls `use` with each row of the list `key`, if it is one of plain rows.
  template <typename Use>
  void ForEachRow(absl::string_view key, const Use& use) const {
    const List* list = Find(key);
    if (list == nullptr) return;
    for (size_t i = list->first; i < list->end; ++i)
      use(PlainRow{absl::MakeSpan(cells_.data() + rows_[i].first, rows_[i].size), inner_.data()});
  }

 private:
  struct Row {
    size_t first, size;  // cells
  };
  struct List {
    absl::string_view key;
    size_t first, end;  // rows
  };
  const List* Find(absl::string_view key) const;
  bool ReadMember();
  bool ReadRows(absl::string_view key);
  bool ReadRow();
  bool ReadCell(std::vector<PlainCell>* cells, bool inner);
  bool ReadOther(PlainCell* cell, bool inner);
  bool ReadShortCount(PlainCell* cell);
  bool ReadNumber(PlainCell* cell);
  bool ReadText(absl::string_view* text);
  bool SkipValue();
  bool Skip(absl::string_view expected);
  bool Skip(char expected) {
    if (at_ == end_ || *at_ != expected) return false;
    ++at_;
    return true;
  }

  const char* at_ = nullptr;
  const char* end_ = nullptr;
  double t_ = 0;
  std::vector<absl::string_view> keys_;
  std::vector<List> lists_;
  std::vector<Row> rows_;
  std::vector<PlainCell> cells_, inner_;
  std::string rest_;
};

// What the decoders of a sample read, whichever reader took it apart.
struct SampleRecord {
  const Json& json;                    // an object: all members, or those that are not in `plain`
  const PlainRecord* plain = nullptr;  // nullptr: all are in `json`
};

// Calls `use` with each row of the list `key`: a PlainRow, or any Json.
template <typename Use>
void ForEachRow(const SampleRecord& record, const char* key, const Use& use) {
  if (record.plain != nullptr) record.plain->ForEachRow(key, use);
  for (const Json& row : ListOf(record.json, key)) use(row);
}

// ---- Cells: what json_fields.h has for rows of the JSON parser ----

template <typename T>
std::optional<T> NumberIn(const PlainCell& cell) {
  if (cell.kind == PlainCell::Kind::kReal) return InRange<T>(cell.real);
  if (cell.kind != PlainCell::Kind::kCount) return std::nullopt;
  return InRange<T>(cell.count);
}

template <typename T>
std::optional<T> NumberAt(const PlainRow& row, size_t i) {
  return i < row.cells.size() ? NumberIn<T>(row.cells[i]) : std::nullopt;
}
Count CountInOther(const PlainCell& cell);  // what NumberIn<uint64_t>() returns of other cells than counts
inline Count CountAt(const PlainRow& row, size_t i) {
  if (i >= row.cells.size()) return std::nullopt;
  const PlainCell& cell = row.cells[i];
  return cell.kind == PlainCell::Kind::kCount ? Count(cell.count) : CountInOther(cell);
}
inline std::string TextAt(const PlainRow& row, size_t i) {
  const bool text = i < row.cells.size() && row.cells[i].kind == PlainCell::Kind::kText;
  return text ? std::string(row.cells[i].text, row.cells[i].size) : "";
}
inline absl::Span<const PlainCell> ListAt(const PlainRow& row, size_t i) {
  if (i >= row.cells.size() || row.cells[i].kind != PlainCell::Kind::kList) return {};
  return {row.inner + row.cells[i].count, row.cells[i].size};
}

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_PLAIN_RECORD_H_
