// Joins the metrics of several recorders into one text of Prometheus' format 0.0.4, with one HELP and TYPE a family.
// Pure. Does not trust the recorders, which have read strangers' memory.
#ifndef COWPROF_WATCH_JOIN_H_
#define COWPROF_WATCH_JOIN_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace cowprof {

// Families in the order of the text.
struct MetricFamily {
  std::string name, head;         // lines "# HELP" and "# TYPE"
  std::vector<std::string> rows;  // lines without their newline
};
// False: a line is not well-formed, belongs to no family of cowprof, or repeats a series. Then nothing is to be used.
bool ParseMetrics(absl::string_view text, std::vector<MetricFamily>* families);

// Whether the recorder says in its text that it has ended, as one that was killed does not.
bool SaysItHasEnded(const std::vector<MetricFamily>& families);

// Each row gets the label `recorder` with the name that comes with its text.
std::string JoinMetrics(const std::vector<std::pair<std::string, const std::vector<MetricFamily>*>>& texts);

}  // namespace cowprof

#endif  // COWPROF_WATCH_JOIN_H_
