#include "cli/budget_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "cli/alert_options.h"
#include "model/format.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

// Key in a budget, flag, and its help.
struct BoundName {
  absl::string_view key;
  const char* flag;
  Figure figure;
  BoundScope scope;
  const char* about;
};
constexpr BoundName kBounds[] = {
    {"copied", "--max-copied", Figure::kCopied, BoundScope::kAll, "Most that all workers together may copy"},
    {"copied_per_batch", "--max-copied-per-batch", Figure::kCopiedPerBatch, BoundScope::kAll,
     "Most that all workers together may copy per batch"},
    {"private", "--max-private", Figure::kPrivatePeak, BoundScope::kAll,
     "Most private memory that all workers together may have at one time"},
    {"shm", "--max-shm", Figure::kShmPeak, BoundScope::kAll, "Most that may be used of /dev/shm, whoever uses it"},
    {"copied", "--max-copied-per-worker", Figure::kCopied, BoundScope::kWorker, "Most that one worker may copy"},
    {"private", "--max-private-per-worker", Figure::kPrivatePeak, BoundScope::kWorker,
     "Most private memory that one worker may have"},
    {"copied", "--max-copied-per-rank", Figure::kCopied, BoundScope::kRank,
     "Most that the workers of one rank may copy"},
    {"private", "--max-private-per-rank", Figure::kPrivatePeak, BoundScope::kRank,
     "Most private memory that the workers of one rank may have"}};

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] != b[j])});
      diagonal = above;
    }
  }
  return row.back();
}

std::string Unknown(absl::string_view what, absl::string_view name, std::vector<absl::string_view> known) {
  const auto nearest = absl::c_min_element(
      known, [&](absl::string_view a, absl::string_view b) { return EditDistance(a, name) < EditDistance(b, name); });
  return absl::StrCat("there is no ", what, " '", Printable(name, 40), "'; did you mean '", *nearest, "'?");
}

std::string AddLimit(absl::string_view kind, absl::string_view ratio, Budget* budget) {
  LimitBound bound = {.name = std::string(kind), .kinds = LimitKindsNamed(kind)};
  if (bound.kinds.empty()) {
    std::vector<absl::string_view> names(kNamesOf<LimitKind>.begin(), kNamesOf<LimitKind>.end());
    names.push_back("cgroup");
    return Unknown("limit of kind", kind, names);
  }
  const std::optional<double> most = ParseRatio(ratio);
  if (!most) return absl::StrCat("'", Printable(ratio, 40), "' is not a ratio; give one such as 90% or 0.9");
  bound.most = *most;
  budget->limits.push_back(bound);
  return "";
}

std::string AddForbidden(absl::string_view id, Budget* budget) {
  if (!absl::c_linear_search(kDiagnosisIds, id))
    return Unknown("diagnosis", id, {std::begin(kDiagnosisIds), std::end(kDiagnosisIds)});
  budget->forbidden.emplace_back(id);
  return "";
}

void Require(const char* flag, const std::string& error) {
  if (!error.empty()) throw CLI::ValidationError(flag, error);
}

class Reader {
 public:
  Reader(const std::string& path, Budget* budget) : path_(path), budget_(budget) {}

  std::string Read(const Json& json) {
    if (!json.is_object()) return "is not a JSON object";
    if (const auto schema = json.find("schema"); schema != json.end() && *schema != "cowprof.budget/1")
      return "has another schema than cowprof.budget/1";
    if (const auto baseline = json.find("baseline"); baseline != json.end()) {
      if (!baseline->is_string()) return "baseline: is not the path of a recording";
      baseline_ = baseline->get<std::string>();
    }
    return ReadScope(json, BoundScope::kAll);
  }

 private:
  std::string Resolve(const std::string& path) const {
    return (std::filesystem::path(path_).parent_path() / path).string();
  }

  std::string ReadScope(const Json& object, BoundScope scope) {
    for (const auto& [key, value] : object.items()) {
      if (std::string error = ReadKey(key, value, scope); !error.empty()) return error;
    }
    return "";
  }

  std::string ReadKey(const std::string& key, const Json& value, BoundScope scope) {
    for (const BoundName& name : kBounds) {
      if (name.key == key && name.scope == scope) return ReadBound(name, value);
    }
    std::vector<absl::string_view> known;
    for (const BoundName& name : kBounds) {
      if (name.scope == scope) known.push_back(name.key);
    }
    if (scope == BoundScope::kAll) {
      if (key == "$schema" || key == "schema" || key == "baseline") return "";
      if (key == "per_worker" || key == "per_rank") {
        if (!value.is_object()) return absl::StrCat(key, ": is not an object");
        return ReadScope(value, key == "per_worker" ? BoundScope::kWorker : BoundScope::kRank);
      }
      if (key == "limits") return ReadLimits(value);
      if (key == "no_diagnosis") return ReadForbidden(value);
      known.insert(known.end(), {"schema", "baseline", "per_worker", "per_rank", "limits", "no_diagnosis"});
    }
    return Unknown("key", key, known);
  }

  std::string ReadBound(const BoundName& name, const Json& value) {
    const std::string key =
        name.scope == BoundScope::kAll ? std::string(name.key) : absl::StrCat(NameOf(name.scope), ".", name.key);
    if (!value.is_string()) return absl::StrCat(key, ": is not a text such as \"20 MiB\" or \"105%\"");
    absl::StatusOr<Bound> bound = ParseBound(value.get<std::string>(), baseline_);
    if (!bound.ok())
      return absl::StrCat(key,
                          ": is neither a size with its unit (\"20 MiB\") nor a share of the baseline (\"105%\", with "
                          "\"baseline\": FILE)");
    if (!bound->baseline.empty()) bound->baseline = Resolve(bound->baseline);
    bound->figure = name.figure;
    bound->scope = name.scope;
    bound->text = key;
    budget_->bounds.push_back(*std::move(bound));
    return "";
  }

  std::string ReadLimits(const Json& value) {
    if (!value.is_object()) return "limits: is not an object";
    for (const auto& [kind, ratio] : value.items()) {
      if (!ratio.is_string() && !ratio.is_number()) return "limits: a ratio is not a number or a text such as \"90%\"";
      const std::string text = ratio.is_string() ? ratio.get<std::string>() : absl::StrCat(ratio.get<double>());
      if (std::string error = AddLimit(kind, text, budget_); !error.empty()) return absl::StrCat("limits: ", error);
    }
    return "";
  }

  std::string ReadForbidden(const Json& value) {
    if (!value.is_array()) return "no_diagnosis: is not an array of diagnosis names";
    for (const Json& id : value) {
      if (!id.is_string()) return "no_diagnosis: has an element that is not a text";
      if (std::string error = AddForbidden(id.get<std::string>(), budget_); !error.empty())
        return absl::StrCat("no_diagnosis: ", error);
    }
    return "";
  }

  const std::string path_;
  Budget* const budget_;
  std::string baseline_;
};

}  // namespace

void AddBudgetOptions(CLI::App* command, Budget* budget, std::string* file) {
  for (const BoundName& name : kBounds) {
    command
        ->add_option_function<std::string>(
            name.flag,
            [budget, &name](const std::string& text) {
              absl::StatusOr<Bound> bound = ParseBound(text, "");
              if (!bound.ok()) Require(name.flag, std::string(bound.status().message()));
              bound->figure = name.figure;
              bound->scope = name.scope;
              bound->text = absl::StrCat(name.flag, " ", text);
              budget->bounds.push_back(*std::move(bound));
            },
            name.about)
        ->type_name("SIZE|N%:BASELINE");
  }
  command
      ->add_option_function<std::vector<std::string>>(
          "--max-limit",
          [budget](const std::vector<std::string>& values) {
            for (const std::string& text : values) {
              const size_t equals = text.find('=');
              if (equals == text.npos)
                Require("--max-limit", absl::StrCat("'", Printable(text), "' is not KIND=RATIO, such as cgroup=90%"));
              Require("--max-limit", AddLimit(text.substr(0, equals), text.substr(equals + 1), budget));
            }
          },
          "Most of a limit that may be used: cgroup=90%, shm=50%; repeatable")
      ->type_name("KIND=RATIO")
      ->allow_extra_args(false);
  command
      ->add_option_function<std::vector<std::string>>(
          "--no-diagnosis",
          [budget](const std::vector<std::string>& ids) {
            for (const std::string& id : ids) Require("--no-diagnosis", AddForbidden(id, budget));
          },
          "Diagnoses that must not be found, separated by commas")
      ->delimiter(',')
      ->type_name("IDS")
      ->allow_extra_args(false);
  command->add_option("--budget", *file, "Bounds in a file (cowprof.budget/1)")->type_name("FILE");
}

std::string ParseBudget(absl::string_view text, const std::string& path, Budget* budget) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/true);
  if (json.is_discarded()) return absl::StrCat(Printable(path), " is not JSON");
  const std::string error = Reader(path, budget).Read(json);
  return error.empty() ? "" : absl::StrCat(Printable(path), ": ", error);
}

}  // namespace cowprof
