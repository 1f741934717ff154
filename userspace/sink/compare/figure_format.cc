#include "sink/compare/figure_format.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/format.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

std::string NumbersText(const std::vector<int>& numbers) { return absl::StrJoin(numbers, ", "); }

}  // namespace

std::string LabelOf(Figure figure) {
  switch (figure) {
    case Figure::kCopied:
      return "copied by the workers";
    case Figure::kCopiedPerBatch:
      return "copied per batch, at most";
    case Figure::kPrivatePeak:
      return "private peak of the workers";
    case Figure::kPlateau:
      return "plateau that was ahead";
    case Figure::kShmPeak:
      return "/dev/shm at its peak";
    case Figure::kCopyTime:
      return "time spent copying";
  }
  return "";
}

std::string AmountText(Figure figure, double value) {
  if (figure == Figure::kCopyTime) return absl::StrFormat("%.2f s", value);
  return HumanBytes(SaturatingCast(value));
}

std::string ChangeText(Figure figure, double change) {
  return absl::StrCat(change < 0 ? "-" : "+", AmountText(figure, std::abs(change)));
}

std::string PercentText(double from, double change) {
  if (from <= 0) return "";
  const double percent = 100 * change / from;
  return absl::StrFormat("(%+.*f %%)", std::abs(percent) >= 9.95 ? 0 : 1, percent);
}

std::string PredictionText(const Prediction& prediction) {
  const auto less = [](double bytes) {
    return absl::StrCat(AmountText(Figure::kPrivatePeak, std::abs(bytes)), bytes < 0 ? " more" : " less");
  };
  const Estimate& predicted = prediction.predicted;
  const std::string low = predicted.low >= 0 ? AmountText(Figure::kPrivatePeak, predicted.low) : less(predicted.low);
  return absl::StrCat("Predicted (", prediction.remedy, "): ", low, " to ", less(predicted.high),
                      " at the peak; measured: ", less(prediction.measured),
                      prediction.holds() ? "." : ", outside of it.");
}

std::string NameText(const PartName& name) {
  if (name.file.empty()) return Printable(name.name);
  return absl::StrCat(Printable(name.file), ": ", Printable(name.name),
                      name.via.empty() ? "" : absl::StrCat(", via ", Printable(name.via)));
}

std::string NumbersText(const PartChange& part) {
  const std::string a = NumbersText(part.numbers_a), b = NumbersText(part.numbers_b);
  return a.empty() || b.empty() || a == b ? (a.empty() ? b : a) : absl::StrCat(a, " -> ", b);
}

std::string KindText(const PartChange& part) {
  if (!part.certain()) return "~";
  if (part.a == 0) return "new";
  if (part.b == 0) return "gone";
  return part.b > part.a ? "more" : "less";
}

std::string RunText(const RunFigures& run) {
  std::vector<std::string> parts;
  parts.push_back(Plural(run.workers, "worker"));
  parts.push_back(run.start_method);
  if (!run.python.empty()) parts.push_back(absl::StrCat("Python ", Printable(run.python)));
  if (run.batches) parts.push_back(absl::StrCat(HumanCount(*run.batches), " batches"));
  parts.push_back(HumanDuration(run.duration));
  parts.push_back(absl::StrCat(NameOf(run.exactness), " counts (", Printable(run.rung), ")"));
  return absl::StrCat(Printable(run.path), ": ", absl::StrJoin(parts, ", "));
}

}  // namespace cowprof
