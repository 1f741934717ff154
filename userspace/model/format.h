// Formats figures and names for the terminal and the report. Pure; does not know what the figures mean.
#ifndef COWPROF_MODEL_FORMAT_H_
#define COWPROF_MODEL_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "model/facts/count.h"
#include "model/facts/limit.h"

namespace cowprof {

std::string HumanBytes(uint64_t bytes);  // "312.4 MiB"; absent figures are "-"
std::string HumanBytes(const Count& bytes);
std::string HumanCount(uint64_t count);  // "79,981"
std::string HumanCount(const Count& count);
std::string HumanDuration(absl::Duration t);                 // "12.3 s", "4 min 05 s"
std::string Plural(uint64_t count, absl::string_view noun);  // "1 worker", "2 workers"

std::string WithArticle(absl::string_view noun);  // "a lock", "an int", by the first letter

// A name chosen by the target, made safe to print: control characters and bytes that are not UTF-8 become \xNN, and
// text beyond `max_bytes` becomes "...".
std::string Printable(absl::string_view text, size_t max_bytes = 120);
// Bytes that are not UTF-8 become "\xNN", as in Printable(); all else stays.
std::string ValidUtf8(absl::string_view text);

// The name of a limit for a person: "shared memory (/dev/shm)".
std::string FormatLimit(const LimitSample& limit);
// An amount in the unit of this kind of limit: "312.4 MiB", "1,024"; "-" if absent.
std::string HumanAmount(LimitKind kind, const Count& amount);

}  // namespace cowprof

#endif  // COWPROF_MODEL_FORMAT_H_
