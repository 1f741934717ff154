// The last part of a path. Pure.
#ifndef COWPROF_MODEL_BASE_NAME_H_
#define COWPROF_MODEL_BASE_NAME_H_

#include "absl/strings/string_view.h"

namespace cowprof {

// "libc.so.6" of "/lib/libc.so.6"; all of it if there is no slash, "" of "/lib/". Points into `path`.
inline absl::string_view BaseName(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace cowprof

#endif  // COWPROF_MODEL_BASE_NAME_H_
