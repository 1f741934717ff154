// Reads fields of untrusted JSON: a field that is missing or has another type is absent, never an error. Writes what
// may be absent, and cells of rows. Shared by the files that own a JSON format; spells no key itself.
#ifndef COWPROF_TIMELINE_JSON_FIELDS_H_
#define COWPROF_TIMELINE_JSON_FIELDS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "model/facts/sample.h"

namespace cowprof {

using Json = nlohmann::ordered_json;

// Discarded if `text` is not valid, or has an object of more than 1,024 members: a Json compares each key with all that
// came before it, so that a few megabytes would take hours. cowprof writes some dozens.
Json ParseUntrusted(absl::string_view text);

// Names come from the target and may contain any bytes; the output is valid UTF-8 nevertheless, and reads as
// Printable() shows the names.
std::string Dump(const Json& json, int indent = -1);

// To the microsecond, as it was written.
inline absl::Duration Rounded(double seconds) {
  return absl::Microseconds(static_cast<int64_t>(std::clamp(std::round(seconds * 1e6), -9e18, 9e18)));
}

// Absent if the number does not fit a T: a count of -1 must not become 2^64 - 1.
template <typename T, typename Number>
std::optional<T> InRange(Number number) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(number);
  } else if constexpr (std::is_floating_point_v<Number>) {
    const bool fits = number >= static_cast<double>(std::numeric_limits<T>::min()) &&
                      number < std::ldexp(1.0, std::numeric_limits<T>::digits);
    return fits ? std::optional<T>(static_cast<T>(number)) : std::nullopt;
  } else {
    return std::in_range<T>(number) ? std::optional<T>(number) : std::nullopt;
  }
}

// Absent if `json` is not a number or does not fit a T.
template <typename T>
std::optional<T> NumberIn(const Json& json) {
  if (!json.is_number()) return std::nullopt;
  if (json.is_number_unsigned()) return InRange<T>(json.get<uint64_t>());
  if (json.is_number_integer()) return InRange<T>(json.get<int64_t>());
  return InRange<T>(json.get<double>());
}

template <typename T>
T NumberOf(const Json& object, const char* key, T otherwise = T()) {
  const auto found = object.find(key);
  return found != object.end() ? NumberIn<T>(*found).value_or(otherwise) : otherwise;
}

inline Count CountOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() ? NumberIn<uint64_t>(*found) : std::nullopt;
}

inline std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

inline bool BoolOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// The list `key`; empty if there is none.
inline const Json& ListOf(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kNone;
}

template <typename T>
std::optional<T> NumberAt(const Json& row, size_t i) {
  return row.is_array() && i < row.size() ? NumberIn<T>(row[i]) : std::nullopt;
}

inline Count CountAt(const Json& row, size_t i) { return NumberAt<uint64_t>(row, i); }

inline std::string TextAt(const Json& row, size_t i) {
  return row.is_array() && i < row.size() && row[i].is_string() ? row[i].get<std::string>() : "";
}

// Empty if there is no list.
inline const Json& ListAt(const Json& row, size_t i) {
  static const Json kNone = Json::array();
  return row.is_array() && i < row.size() && row[i].is_array() ? row[i] : kNone;
}

inline Json OrNull(const Count& count) { return count ? Json(*count) : Json(nullptr); }
inline Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// ---- Rows are written directly as text: they are the bulk of a file ----

// To the microsecond.
inline std::string SecondsText(absl::Duration t) { return absl::StrFormat("%.6f", absl::ToDoubleSeconds(t)); }

// The next cell of a row: `,12` or `,null`.
inline void AppendCell(const Count& count, std::string* out) {
  if (count) {
    absl::StrAppend(out, ",", *count);
  } else {
    absl::StrAppend(out, ",null");
  }
}

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_FIELDS_H_
