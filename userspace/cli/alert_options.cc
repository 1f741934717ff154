// Applies values without a kind first, so that those with a kind override them.
#include "cli/alert_options.h"

#include <functional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "model/facts/run_model.h"
#include "model/format.h"

namespace cowprof {
namespace {

constexpr absl::string_view kHangs = "hang";

// KIND=THRESHOLD:HOLD, of which only THRESHOLD is required.
struct Value {
  absl::string_view threshold;
  std::optional<absl::string_view> kind, hold;
};

Value SplitValue(absl::string_view text) {
  Value value;
  if (const size_t equals = text.find('='); equals != text.npos) {
    value.kind = text.substr(0, equals);
    text.remove_prefix(equals + 1);
  }
  const size_t colon = text.find(':');
  value.threshold = text.substr(0, colon);
  if (colon != text.npos) value.hold = text.substr(colon + 1);
  return value;
}

bool IsOfKind(const std::optional<absl::string_view>& name, LimitKind kind) {
  return !name || *name == NameOf(kind) || (IsCgroup(kind) && *name == "cgroup");
}

std::vector<absl::string_view> KindNames() {
  std::vector<absl::string_view> names;
  for (const LimitKind kind : kAll<LimitKind>) {
    const absl::string_view name = IsCgroup(kind) ? "cgroup" : NameOf(kind);
    if (!absl::c_linear_search(names, name)) names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<LimitKind> LimitKindsNamed(absl::string_view name) {
  std::vector<LimitKind> kinds;
  for (const LimitKind kind : kAll<LimitKind>) {
    if (IsOfKind(name, kind)) kinds.push_back(kind);
  }
  return kinds;
}

namespace {

// Sets one value in the rules; returns what is wrong with it, or "".
using SetValue = std::function<std::string(const Value&, std::optional<absl::Duration> hold, AlertRules*)>;

std::string ParseValues(const std::vector<std::string>& values, const SetValue& set, AlertSettings* settings) {
  for (const bool of_one_kind : {false, true}) {
    for (const std::string& text : values) {
      const Value value = SplitValue(text);
      if (value.kind.has_value() != of_one_kind) continue;
      std::optional<absl::Duration> hold;
      if (value.hold && !(hold = ParseDuration(*value.hold)))
        return absl::StrCat("'", Printable(*value.hold), "' in '", Printable(text),
                            "' is not a duration for which a condition can hold; give one such as 10s");
      bool known = false;
      for (const LimitKind kind : kAll<LimitKind>) {
        if (!IsOfKind(value.kind, kind)) continue;
        known = true;
        if (std::string error = set(value, hold, &settings->of_kind[static_cast<size_t>(kind)]); !error.empty())
          return error;
      }
      if (!known) {
        return absl::StrCat("there is no limit of kind '", Printable(*value.kind), "'; give one of ",
                            absl::StrJoin(KindNames(), ", "));
      }
    }
  }
  return "";
}

}  // namespace

std::optional<double> ParseRatio(absl::string_view text) {
  double ratio = 0;
  const bool percent = absl::ConsumeSuffix(&text, "%");
  if (!absl::SimpleAtod(text, &ratio)) return std::nullopt;
  if (percent) ratio /= 100;
  return ratio > 0 && ratio <= 1 ? std::optional(ratio) : std::nullopt;  // NaN is neither
}

std::optional<absl::Duration> ParseDuration(absl::string_view text) {
  double seconds = 0;
  absl::Duration parsed;
  if (absl::SimpleAtod(text, &seconds)) {
    parsed = absl::Seconds(seconds);  // "inf", "nan" and 1e300 are infinite
  } else if (!absl::ParseDuration(text, &parsed)) {
    return std::nullopt;
  }
  if (parsed <= absl::ZeroDuration() || parsed == absl::InfiniteDuration()) return std::nullopt;
  return parsed;
}

std::string ParseAlertRatios(const std::vector<std::string>& values, AlertSettings* settings) {
  // Hangs have no threshold: they can only be turned off.
  std::vector<std::string> of_limits;
  for (const std::string& text : values) {
    if (SplitValue(text).kind != kHangs) {
      of_limits.push_back(text);
    } else if (SplitValue(text).threshold == "off" && !SplitValue(text).hold) {
      settings->hangs = false;
    } else {
      return absl::StrCat("'", Printable(text), "': a hang has no threshold; give hang=off, or nothing");
    }
  }
  const auto set = [](const Value& value, std::optional<absl::Duration> hold, AlertRules* rules) -> std::string {
    rules->ratio = ParseRatio(value.threshold);
    rules->ratio_hold = hold;
    if (rules->ratio || value.threshold == "off") return "";
    return absl::StrCat("'", Printable(value.threshold),
                        "' is not a ratio; give one such as 90%, 0.9, shm=80%:10s or off");
  };
  return ParseValues(of_limits, set, settings);
}

std::string ParseAlertEtas(const std::vector<std::string>& values, AlertSettings* settings) {
  const auto set = [](const Value& value, std::optional<absl::Duration> hold, AlertRules* rules) -> std::string {
    rules->eta = ParseDuration(value.threshold);
    rules->eta_hold = hold;
    if (rules->eta || value.threshold == "off") return "";
    return absl::StrCat("'", Printable(value.threshold),
                        "' is not a duration; give one such as 2m, 30s, shm=30s:5s or off");
  };
  return ParseValues(values, set, settings);
}

}  // namespace cowprof
