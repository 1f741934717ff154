// Compresses what sinks write.
#ifndef COWPROF_SINK_GZIP_H_
#define COWPROF_SINK_GZIP_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cowprof {

// `parts` follow each other; meanwhile they are in memory a second time. `level`: 1 is fast, 12 small (libdeflate's).
std::string Gzip(absl::Span<const absl::string_view> parts, int level);

}  // namespace cowprof

#endif  // COWPROF_SINK_GZIP_H_
