// Spells cowprof.diff/1, and what the page shows of a comparison.
#include <nlohmann/json.hpp>

#include "sink/compare/diff.h"
#include "sink/compare/figure_format.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

Json RunJson(const RunFigures& run) {
  Json figures = Json::object();
  for (const Figure figure : kAll<Figure>) {
    const std::optional<double> value = run.Get(figure);
    figures[NameOf(figure)] = value ? Json(*value) : Json(nullptr);
  }
  return {{"path", run.path},
          {"command", run.command},
          {"exactness", NameOf(run.exactness)},
          {"rung", run.rung},
          {"python", TextOrNull(run.python)},
          {"start_method", run.start_method},
          {"workers", run.workers},
          {"batches", OrNull(run.batches)},
          {"batches_unseen", run.batches && !run.several_epochs ? Json(run.unseen_batches) : Json(nullptr)},
          {"duration_seconds", absl::ToDoubleSeconds(run.duration)},
          {"complete", run.complete},
          {"from_start", run.from_start},
          {"headline", run.sentence},
          {"figures", std::move(figures)}};
}

Json SideJson(const std::optional<SideFigure>& side) {
  if (!side) return nullptr;
  return {{"low", side->low}, {"mean", side->mean}, {"high", side->high}};
}

Json EstimateJson(const std::optional<Estimate>& estimate) {
  if (!estimate) return nullptr;
  return {{"low", estimate->low}, {"best", estimate->best}, {"high", estimate->high}};
}

Json FigureJson(const FigureChange& row, bool comparable) {
  return {{"figure", NameOf(row.figure)},
          {"unit", row.figure == Figure::kCopyTime ? "seconds" : "bytes"},
          {"a", SideJson(row.a)},
          {"b", SideJson(row.b)},
          {"change", EstimateJson(row.change)},
          {"verdict", row.verdict && comparable ? Json(NameOf(*row.verdict)) : Json(nullptr)}};
}

Json PartsJson(const std::vector<PartChange>& parts) {
  Json rows = Json::array();
  for (const PartChange& part : parts) {
    Json row = {{part.name.file.empty() ? "type" : "function", part.name.name},
                {"a_bytes", part.a},
                {"b_bytes", part.b},
                {"uncertainty_bytes", part.uncertainty},
                {"change", KindText(part)}};
    if (!part.name.file.empty()) {
      row["file"] = part.name.file;
      row["via"] = TextOrNull(part.name.via);
      row["a_lines"] = part.numbers_a;
      row["b_lines"] = part.numbers_b;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json PredictionJson(const std::optional<Prediction>& prediction) {
  if (!prediction) return nullptr;
  const Estimate& predicted = prediction->predicted;
  return {{"remedy", prediction->remedy},
          {"predicted_bytes", {{"low", predicted.low}, {"best", predicted.best}, {"high", predicted.high}}},
          {"measured_bytes", prediction->measured},
          {"inside", prediction->holds()}};
}

Json ComparisonJson(const Diff& diff) {
  const Comparison& of = diff.comparison;
  const bool comparable = of.obstacles.empty();
  Json figures = Json::array();
  for (const FigureChange& row : of.figures) {
    Json figure = FigureJson(row, comparable);
    figure["label"] = LabelOf(row.figure);
    figures.push_back(std::move(figure));
  }
  const auto texts = [](const std::vector<RunFigures>& side) {
    Json out = Json::array();
    for (const RunFigures& run : side) out.push_back(RunText(run));
    return out;
  };
  const auto sees_lines = [&](const RunFigures& run) { return comparable && WhyMissing(run, "stacks").empty(); };
  return {{"verdict", of.verdict ? Json(NameOf(*of.verdict)) : Json(nullptr)},
          {"sentence", DiffSentence(diff)},
          {"prediction", of.prediction ? Json(PredictionText(*of.prediction)) : Json(nullptr)},
          {"notes", of.notes},
          {"a", texts(diff.a)},
          {"b", texts(diff.b)},
          {"sees_lines", {{"a", sees_lines(diff.a[0])}, {"b", sees_lines(diff.b[0])}}},
          {"figures", std::move(figures)}};
}

}  // namespace

Json DiffJson(const Diff& diff) {
  const Comparison& of = diff.comparison;
  Json a = Json::array(), b = Json::array(), figures = Json::array();
  for (const RunFigures& run : diff.a) a.push_back(RunJson(run));
  for (const RunFigures& run : diff.b) b.push_back(RunJson(run));
  for (const FigureChange& row : of.figures) figures.push_back(FigureJson(row, of.obstacles.empty()));
  return {{"schema", "cowprof.diff/1"},
          {"comparable", of.obstacles.empty()},
          {"obstacles", of.obstacles},
          {"notes", of.notes},
          {"verdict", of.verdict ? Json(NameOf(*of.verdict)) : Json(nullptr)},
          {"sentence", DiffSentence(diff)},
          {"a", std::move(a)},
          {"b", std::move(b)},
          {"figures", std::move(figures)},
          {"lines", PartsJson(of.lines)},
          {"types", PartsJson(of.types)},
          {"prediction", PredictionJson(of.prediction)}};
}

Json ComparisonsJson(const Diff& diff) {
  const Diff swapped = {.a = diff.b, .b = diff.a, .comparison = Compare(diff.b, diff.a)};
  return Json::array({ComparisonJson(diff), ComparisonJson(swapped)});
}

}  // namespace cowprof
