// What most files of the tool include, compiled once. Included by the build, never by hand: every file still names what
// it uses. Leaves out nlohmann/json.hpp: one file in six includes it, and loading it made two of the others take 1.3
// and 1.5 CPU-seconds longer to compile.
#ifndef COWPROF_PRECOMPILED_H_
#define COWPROF_PRECOMPILED_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#endif  // COWPROF_PRECOMPILED_H_
