// Reads a command's row from what was declared for CLI11.
#include "cli/command_table.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/recording_options.h"
#include "source/probe_plan.h"

namespace cowprof {
namespace {

// Words in capitals stand for what is typed; others are typed as they are.
ValueKind KindOf(const std::string& value) {
  if (value.empty()) return ValueKind::kNone;
  if (absl::StartsWith(value, "FILE")) return ValueKind::kFile;
  if (value == "PID") return ValueKind::kPid;
  if (value == "CMD") return ValueKind::kProgram;
  const bool typed = std::none_of(value.begin(), value.end(), absl::ascii_isupper);
  if (value == "CAPABILITY" || (typed && absl::StrContains(value, '|'))) return ValueKind::kChoice;
  return ValueKind::kText;
}

std::vector<std::string> ChoicesOf(const std::string& value) {
  if (KindOf(value) != ValueKind::kChoice) return {};
  if (value == "CAPABILITY") return WithoutNames();
  return absl::StrSplit(value, '|');
}

}  // namespace

CommandRow RowOf(const CLI::App& app) {
  CommandRow row = {.name = app.get_parent() != nullptr ? app.get_name() : "", .summary = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    const std::string value = option->get_items_expected_max() == 0 ? "" : option->get_type_name();
    if (option->get_positional()) {
      row.operands.push_back({.name = option->get_name(true),
                              .about = option->get_description(),
                              .required = option->get_required(),
                              .repeatable = option->get_items_expected_max() > 1,
                              .kind = KindOf(value),
                              .choices = ChoicesOf(value)});
    } else if (!option->get_group().empty()) {
      const auto &shorts = option->get_snames(), &longs = option->get_lnames();
      row.options.push_back({.short_name = shorts.empty() ? "" : "-" + shorts[0],
                             .long_name = longs.empty() ? "" : "--" + longs[0],
                             .value = value,
                             .value_optional = !value.empty() && option->get_items_expected_min() == 0,
                             .repeatable = option->get_items_expected_max() > 1,
                             .about = option->get_description(),
                             .group = row.name.empty() ? option->get_group() : "Options",
                             .kind = KindOf(value),
                             .choices = ChoicesOf(value)});
    }
  }
  // The options that every program has come last.
  std::stable_partition(row.options.begin(), row.options.end(), [](const OptionRow& option) {
    return option.group != kOtherOptions && option.long_name != "--help";
  });
  return row;
}

}  // namespace cowprof
