// The rows of a sample, by process.
#ifndef COWPROF_RECORDER_SAMPLE_ROWS_H_
#define COWPROF_RECORDER_SAMPLE_ROWS_H_

#include "absl/container/flat_hash_map.h"
#include "model/facts/sample.h"

namespace cowprof {

class SampleRows {
 public:
  // `sample` must outlive this, and its rows must stay where they are.
  explicit SampleRows(Sample* sample) {
    rows_.reserve(sample->processes.size());
    for (ProcessSample& row : sample->processes) rows_.emplace(row.index, &row);
  }

  // nullptr: the process has none.
  ProcessSample* Find(int index) const {
    const auto row = rows_.find(index);
    return row == rows_.end() ? nullptr : row->second;
  }

 private:
  absl::flat_hash_map<int, ProcessSample*> rows_;
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_SAMPLE_ROWS_H_
