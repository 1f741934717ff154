// What most files include, compiled once: for the sanitized build only, which CI makes beside the usual one.
#ifndef COWPROF_TESTS_FUZZ_PRECOMPILED_H_
#define COWPROF_TESTS_FUZZ_PRECOMPILED_H_

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "model/growth.h"

#endif  // COWPROF_TESTS_FUZZ_PRECOMPILED_H_
