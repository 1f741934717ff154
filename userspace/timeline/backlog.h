// What samples say once and the file does not have yet, as while the disk is full: events, alerts, what is numbered as
// it appears, rows that changed, the last rows of ended processes. Bounded except by how many processes came and went,
// and by what is numbered: a reader numbers both by counting. Make a record of it once it is large. What is dropped is
// counted as lost. Pure.
#ifndef COWPROF_TIMELINE_BACKLOG_H_
#define COWPROF_TIMELINE_BACKLOG_H_

#include <cstddef>
#include <vector>

#include "model/facts/sample.h"
#include "model/judge/alert.h"

namespace cowprof {

class Backlog {
 public:
  // Numbers that are kept of earlier samples, the latest of each: events that say what a process is, has or does; notes
  // and signals; runs of copied pages; counts of regions.
  static constexpr size_t kMostFacts = 50'000, kMostRemarks = 50'000, kMostRuns = 250'000, kMostRegionCounts = 250'000;
  // Ended processes and rows of them that make it large: a record of some MiB.
  static constexpr size_t kManyRows = 10'000;

  // Adds a sample, and drops what has become too much of those before it.
  void Add(const Sample& latest, const std::vector<Alert>& raised);
  // The sample that was added last, together with what is left of those before it; its losses include what was dropped.
  const Sample& sample() const { return sample_; }
  const std::vector<Alert>& alerts() const { return alerts_; }  // in order of time
  bool empty() const { return empty_; }
  bool is_large() const;
  // All of it was written.
  void Clear();

 private:
  void Drop();

  Sample sample_;
  std::vector<Alert> alerts_;
  bool empty_ = true;
  Losses dropped_;  // so far
};

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_BACKLOG_H_
