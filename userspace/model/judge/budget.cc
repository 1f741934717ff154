#include "model/judge/budget.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "model/format.h"
#include "model/judge/comparison.h"
#include "model/judge/diagnosis_facts.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

std::string Amount(double bytes) { return HumanBytes(SaturatingCast(bytes)); }

// What makes the figures of a recording too low, or not those of a whole run.
std::vector<std::string> Defects(const RunFigures& run) {
  std::vector<std::string> defects = ObstaclesTo(run, run);
  defects.erase(std::unique(defects.begin(), defects.end()), defects.end());
  std::vector<std::string> once;
  for (std::string& defect : defects) {
    if (!absl::c_linear_search(once, defect)) once.push_back(std::move(defect));
  }
  return once;
}

// Why copies can be missing although nothing was lost; "": they can't.
absl::string_view MissesCopies(const RunFigures& run) {
  return run.exactness == Exactness::kPageMap   ? "the page map misses copies"
         : run.exactness == Exactness::kSampled ? "copies were estimated from samples"
                                                : "";
}

constexpr absl::string_view kCountAlike =
    "; count them exactly, or give a share of a baseline that was counted the same way";

bool BoundsCopies(const Bound& bound) {
  return bound.figure == Figure::kCopied || bound.figure == Figure::kCopiedPerBatch;
}

// Whether other faults may be among the copies, and any number of them: then a figure of copies is known from above
// only. That of a baseline that was counted alike is as high.
bool MayBeLess(const RunFigures& run, const Bound& bound) {
  return run.exactness == Exactness::kUpperBound && BoundsCopies(bound) && bound.baseline.empty();
}

struct Measured {
  std::string label;            // "copied by worker 0 (4242)"
  std::optional<double> value;  // at most
  std::optional<double> least;
};

std::vector<Measured> Measure(const RunFigures& run, const Bound& bound) {
  const bool may_be_less = MayBeLess(run, bound);
  const auto least = [&](std::optional<double> known) { return known && may_be_less ? 0 : known; };
  if (bound.scope == BoundScope::kAll)
    return {{NameOf(bound.figure), run.Get(bound.figure), least(run.Least(bound.figure))}};
  std::vector<Measured> out;
  for (const MemberFigures& member : bound.scope == BoundScope::kWorker ? run.workers_apart : run.ranks_apart) {
    const Count& count = bound.figure == Figure::kCopied ? member.copied : member.private_peak;
    const std::optional<double> value = count ? std::optional<double>(*count) : std::nullopt;
    out.push_back({absl::StrCat(NameOf(bound.figure), " of ", member.label), value, least(value)});
  }
  return out;
}

// Why the figure may be higher than what is known of it; "": it can't.
std::string WhyTooLow(const RunFigures& run, const Bound& bound) {
  if (bound.scope == BoundScope::kRank && run.workers_summed_up > 0)
    return absl::StrCat("the ranks of ", Plural(run.workers_summed_up, "ended worker"), " are not known");
  const bool of_all = bound.figure == Figure::kPrivatePeak && bound.scope == BoundScope::kAll;
  return of_all && !run.SawAllPrivate() ? "the private memory of a worker was not seen" : "";
}

std::string NameOf(const Bound& bound) {
  const std::string figure = NameOf(bound.figure);
  return bound.scope == BoundScope::kAll      ? figure
         : bound.scope == BoundScope::kWorker ? figure + " per worker"
                                              : figure + " per rank";
}

// Most that the bound allows, or why that can't be said. Of a baseline it is a share of what that has for certain.
struct Allowance {
  double certain = 0, at_most = 0;
};
absl::StatusOr<Allowance> Allowed(const RunFigures& run, const Bound& bound,
                                  const std::map<std::string, RunFigures>& baselines) {
  if (bound.baseline.empty()) return Allowance{bound.most, bound.most};
  const RunFigures& baseline = baselines.at(bound.baseline);
  if (const std::vector<std::string> obstacles = ObstaclesTo(baseline, run); !obstacles.empty())
    return absl::FailedPreconditionError(absl::StrJoin(obstacles, " "));
  if (const std::string why = WhyTooLow(baseline, bound); !why.empty())
    return absl::FailedPreconditionError(absl::StrCat("in ", Printable(baseline.path), ", ", why));
  std::optional<Allowance> of;
  for (const Measured& row : Measure(baseline, bound)) {
    if (!row.value)
      return absl::FailedPreconditionError(absl::StrCat(Printable(baseline.path), " does not have that figure"));
    if (!of) of.emplace();
    *of = {std::max(of->certain, *row.least), std::max(of->at_most, *row.value)};
  }
  if (!of) return absl::FailedPreconditionError(absl::StrCat(Printable(baseline.path), " has none"));
  return Allowance{of->certain * bound.most, of->at_most * bound.most};
}

// The finding that explains a figure of the workers; null: none is known to.
const Diagnosis* ReasonOf(const RunFigures& run, Figure figure) {
  if (figure == Figure::kPrivatePeak) {  // the first finding owns most, but memory may have no finding
    const Diagnosis* first = run.diagnoses.empty() ? nullptr : &run.diagnoses.front();
    const bool explains = first != nullptr && (IsOfCopies(*first) || first->id == "new-memory-growth") &&
                          first->bytes >= kMostOfIt * run.Get(figure).value_or(HUGE_VAL);
    return explains ? first : nullptr;
  }
  if (figure != Figure::kCopied && figure != Figure::kCopiedPerBatch) return nullptr;
  const auto found = absl::c_find_if(run.diagnoses, IsOfCopies);
  return found == run.diagnoses.end() ? nullptr : &*found;
}

void NameLine(const Diagnosis& diagnosis, BoundResult* result) {
  if (!diagnosis.culprit || diagnosis.id == "before-attach") return;  // that one's line is of copies made since
  result->culprit = diagnosis.culprit;
  result->culprit_of = diagnosis.id;
}

BoundResult Hold(const RunFigures& run, const Bound& bound, const std::map<std::string, RunFigures>& baselines,
                 const std::vector<std::string>& defects) {
  BoundResult result = {.name = NameOf(bound)};
  const auto undecided = [&](absl::string_view why) {
    result.outcome = BoundOutcome::kUndecided;
    result.sentence = absl::StrCat(Printable(bound.text), ": can't be decided: ", why);
    return result;
  };
  const absl::StatusOr<Allowance> allowed = Allowed(run, bound, baselines);
  if (!allowed.ok()) return undecided(allowed.status().message());
  const std::vector<Measured> rows = Measure(run, bound);
  const auto worst = absl::c_max_element(
      rows, [](const Measured& a, const Measured& b) { return a.value.value_or(-1) < b.value.value_or(-1); });
  if (worst == rows.end() || !worst->value) {
    return undecided(defects.empty() ? absl::StrCat("the recording has no ", NameOf(bound))
                                     : absl::StrJoin(defects, " "));
  }
  const bool all_known = absl::c_all_of(rows, [](const Measured& row) { return row.value.has_value(); });
  const std::string is = *worst->least < *worst->value ? " is at most " : " is ";
  if (*worst->least > allowed->at_most) {
    result.outcome = BoundOutcome::kBroken;
    result.sentence =
        absl::StrCat(Printable(bound.text), ": ", worst->label, is, Amount(*worst->value), ", ",
                     Amount(*worst->value - allowed->at_most), " more than the ", Amount(allowed->at_most), " allowed");
    if (const Diagnosis* reason = ReasonOf(run, bound.figure)) NameLine(*reason, &result);
    return result;
  }
  if (*worst->value > allowed->certain) {
    const std::string why = MayBeLess(run, bound)
                                ? absl::StrCat("; other faults may be among these copies", kCountAlike)
                                : "; not every batch was seen";
    return undecided(
        absl::StrCat(worst->label, is, Amount(*worst->value), ", and ", Amount(allowed->certain), " is allowed", why));
  }
  if (!all_known) return undecided("the recording does not have that figure for every worker");
  if (const std::string why = WhyTooLow(run, bound); !why.empty()) return undecided(why);
  if (!defects.empty()) return undecided(absl::StrJoin(defects, " "));
  // A baseline that was counted alike is as low.
  if (const absl::string_view why = MissesCopies(run); BoundsCopies(bound) && bound.baseline.empty() && !why.empty()) {
    return undecided(absl::StrCat(worst->label, is, Amount(*worst->value), " of ", Amount(allowed->certain),
                                  " allowed, but ", why, kCountAlike));
  }
  result.sentence = absl::StrCat(Printable(bound.text), ": ", worst->label, is, Amount(*worst->value), " of ",
                                 Amount(allowed->certain), " allowed");
  return result;
}

BoundResult HoldLimit(const RunFigures& run, const LimitBound& bound, const std::vector<std::string>& defects) {
  BoundResult result = {.name = absl::StrCat("limit ", bound.name)};
  const LimitModel* worst = nullptr;
  for (const LimitModel& limit : run.limits) {
    // It may have been that of a process that has ended.
    const bool applied = limit.peak_ratio > 0 || limit.now.ratio();
    if (absl::c_linear_search(bound.kinds, limit.now.kind) && applied &&
        (worst == nullptr || limit.peak_ratio > worst->peak_ratio))
      worst = &limit;
  }
  if (worst == nullptr) {
    result.outcome = BoundOutcome::kUndecided;
    result.sentence = absl::StrCat("--max-limit ", bound.name, ": can't be decided: the recording has no such limit");
    return result;
  }
  result.sentence = absl::StrFormat("--max-limit %s: %.1f %% of %s was used, %.1f %% is allowed", bound.name,
                                    100 * worst->peak_ratio, FormatLimit(worst->now), 100 * bound.most);
  if (worst->peak_ratio > bound.most) {
    result.outcome = BoundOutcome::kBroken;
  } else if (!defects.empty()) {
    result.outcome = BoundOutcome::kUndecided;
    absl::StrAppend(&result.sentence, ": can't be decided: ", absl::StrJoin(defects, " "));
  }
  return result;
}

// Copies of the workers whose cause is not known. Bytes.
double UntoldOf(const RunFigures& run) {
  const uint64_t told = Sum(run.causes) - run.causes[static_cast<int>(Cause::kUnknown)];
  return *run.Get(Figure::kCopied) - static_cast<double>(told) * run.page_bytes;
}

// Why the recording would not show such a finding if there were one; "": it would.
std::string WhyUnseen(const RunFigures& run, absl::string_view id) {
  const auto is = [&](std::initializer_list<absl::string_view> ids) { return absl::c_linear_search(ids, id); };
  const bool of_causes = is({"cow-refcount", "torch-refcount", "cow-gc-header", "cow-data", "allocator-reuse"});
  if (of_causes || id == "parent-unshare") {
    if (!run.Get(Figure::kCopied)) return "the workers' copies were not counted";
    if (const absl::string_view why = MissesCopies(run); !why.empty()) return std::string(why);
    const double untold = UntoldOf(run);
    if (of_causes && untold >= kNoticeableBytes && untold >= kNoticeableShare * *run.Get(Figure::kCopied))
      return absl::StrCat("why the workers copied ", Amount(untold), " is unknown");
  }
  if (is({"gc-disabled", "fork-hang", "fork-hazard", "pickle-failure", "pickled-arguments"})) {
    const absl::string_view own = id == "fork-hang"           ? "hangs"
                                  : id == "pickle-failure"    ? "start-methods"
                                  : id == "pickled-arguments" ? "stacks"
                                                              : "causes";
    if (std::string why = WhyMissing(run, own); !why.empty()) return why;
    if (id == "pickled-arguments" && run.exactness == Exactness::kPageMap) return "the page map has no stacks";
  }
  if (is({"new-memory-growth", "gc-disabled", "private-by-spawn", "pickled-arguments"}) &&
      !run.Get(Figure::kPrivatePeak))
    return "the workers' private memory was not seen";
  if (is({"oom-cgroup", "oom-host", "sigbus-file", "shm-full", "shm-unlinked"}) && !run.ends_known)
    return "how a process ended is not known";
  const auto has = [&](LimitKind kind) {
    return absl::c_any_of(run.limits, [&](const LimitModel& limit) { return limit.now.kind == kind; });
  };
  const bool shm_filled = is({"shm-full", "shm-near-full"}) && has(LimitKind::kShm);
  if (absl::StartsWith(id, "shm-") && !run.shm_seen && !shm_filled) return "/dev/shm was not looked at";
  if (id == "fd-exhaustion" && !has(LimitKind::kDescriptors)) return "the recording has no limit of descriptors";
  return "";
}

BoundResult Forbid(const RunFigures& run, const std::string& id, const std::vector<std::string>& defects) {
  BoundResult result = {.name = absl::StrCat("no ", id)};
  const auto found = absl::c_find_if(run.diagnoses, [&](const Diagnosis& diagnosis) { return diagnosis.id == id; });
  if (found != run.diagnoses.end()) {
    result.outcome = BoundOutcome::kBroken;
    result.sentence = absl::StrCat("--no-diagnosis ", id, ": ", found->summary);
    NameLine(*found, &result);
  } else if (!defects.empty()) {
    result.outcome = BoundOutcome::kUndecided;
    result.sentence = absl::StrCat("--no-diagnosis ", id, ": can't be decided: ", absl::StrJoin(defects, " "));
  } else if (run.diagnoses.empty()) {
    result.outcome = BoundOutcome::kUndecided;
    result.sentence = absl::StrCat("--no-diagnosis ", id, ": can't be decided: the recording allows no diagnosis");
  } else if (const std::string why = WhyUnseen(run, id); !why.empty()) {
    result.outcome = BoundOutcome::kUndecided;
    result.sentence = absl::StrCat("--no-diagnosis ", id, ": can't be decided: ", why);
  } else {
    result.sentence = absl::StrCat("--no-diagnosis ", id, ": there is none");
  }
  return result;
}

}  // namespace

std::optional<double> ParseSize(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  if (end == 0 || !absl::SimpleAtod(text.substr(0, end), &number)) return std::nullopt;
  const absl::string_view unit = absl::StripLeadingAsciiWhitespace(text.substr(end));
  const std::pair<absl::string_view, double> units[] = {{"B", 1},        {"kB", 1e3},    {"KB", 1e3},   {"MB", 1e6},
                                                        {"GB", 1e9},     {"TB", 1e12},   {"KiB", 1024}, {"MiB", 0x1p20},
                                                        {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  for (const auto& [name, bytes] : units) {
    if (unit == name) return number * bytes;
  }
  return std::nullopt;
}

absl::StatusOr<Bound> ParseBound(absl::string_view text, const std::string& baseline) {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("'", Printable(text), "' ", why));
  };
  Bound bound;
  const size_t percent = text.find('%');
  if (percent == text.npos) {
    const std::optional<double> size = ParseSize(text);
    double number;
    if (!size)
      return wrong(absl::SimpleAtod(text, &number) ? "has no unit; write for instance 20MiB"
                                                   : "is not a size such as 20MiB, nor a share of a baseline such as "
                                                     "105%:baseline.json");
    bound.most = *size;
    return bound;
  }
  absl::string_view number = text.substr(0, percent), rest = text.substr(percent + 1);
  const bool above = absl::ConsumePrefix(&number, "+");
  double value = 0;
  if (!absl::SimpleAtod(number, &value) || !std::isfinite(value) || value < 0)
    return wrong("does not begin with a percentage, such as 105% or +5%");
  bound.most = value / 100 + (above ? 1 : 0);
  bound.baseline = absl::ConsumePrefix(&rest, ":") ? std::string(rest) : baseline;
  if (!rest.empty() && bound.baseline != rest) return wrong("is not N%:BASELINE");
  if (bound.baseline.empty()) return wrong("names no baseline; write for instance 105%:baseline.json");
  return bound;
}

CheckResult Check(const RunFigures& run, const Budget& budget, const std::map<std::string, RunFigures>& baselines) {
  CheckResult check;
  const std::vector<std::string> defects = Defects(run);
  for (const Bound& bound : budget.bounds) check.results.push_back(Hold(run, bound, baselines, defects));
  for (const LimitBound& bound : budget.limits) check.results.push_back(HoldLimit(run, bound, defects));
  for (const std::string& id : budget.forbidden) check.results.push_back(Forbid(run, id, defects));
  const auto rank = [](const BoundResult& result) {
    return result.outcome == BoundOutcome::kBroken ? 0 : result.outcome == BoundOutcome::kUndecided ? 1 : 2;
  };
  absl::c_stable_sort(check.results, [&](const BoundResult& a, const BoundResult& b) { return rank(a) < rank(b); });
  if (!check.results.empty()) check.outcome = check.results[0].outcome;
  return check;
}

}  // namespace cowprof
