// Compresses what sinks write.
#ifndef COWPROF_SINK_GZIP_H_
#define COWPROF_SINK_GZIP_H_

#include <string>

#include "absl/strings/string_view.h"

namespace cowprof {

std::string Gzip(absl::string_view data, int level);  // 1: fast, 9: small

}  // namespace cowprof

#endif  // COWPROF_SINK_GZIP_H_
