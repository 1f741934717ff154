#include "model/judge/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/format.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr double kCopiesRepeat = 0.01, kPeaksRepeat = 0.05;  // of the larger figure
constexpr double kPagesOfWorker = 128;                       // copied more or less from run to run
constexpr double kAlikeTimes = 0.1, kAlikeBatches = 0.02;
constexpr double kTimesRepeat = 0.15;  // what a copy costs, as measured on a shared host

std::string Quoted(const std::string& text) { return absl::StrCat("`", Printable(text), "`"); }

// What one recording alone lacks.
void AddDefects(const RunFigures& run, std::vector<std::string>* out) {
  const std::string name = Printable(run.path);
  if (!run.complete) out->push_back(absl::StrCat(name, kHasNoEnd));
  if (run.start_method == "none") out->push_back(absl::StrCat("No worker was started in ", name, "."));
  if (!run.from_start)
    out->push_back(absl::StrCat(name, " began when workers had memory of their own; record it from the start."));
  if (!run.death.empty()) out->push_back(absl::StrCat("In ", name, ", a process did not end well: ", run.death, "."));
  const Losses& losses = run.losses;
  if (losses.lost_events() > 0) out->push_back(absl::StrCat(name, " lost events: its counts may be too low."));
  if (losses.records_dropped > 0)
    out->push_back(absl::StrCat(name, " lacks ", Plural(losses.records_dropped, "sample"),
                                " that could not be written: its peaks may be too low."));
}

bool AreAlike(double a, double b, double share) { return std::abs(a - b) <= share * std::max(a, b); }

// "a.json has 4 workers, b.json 2."
std::string Differ(const RunFigures& a, const RunFigures& b, const std::string& of_a, const std::string& of_b) {
  return absl::StrCat(Printable(a.path), " has ", of_a, ", ", Printable(b.path), " ", of_b, ".");
}

std::optional<SideFigure> SideOf(Figure figure, absl::Span<const RunFigures> runs) {
  SideFigure side = {.low = HUGE_VAL, .high = -HUGE_VAL};
  for (const RunFigures& run : runs) {
    const std::optional<double> value = run.Get(figure);
    if (!value) return std::nullopt;
    side.low = std::min(side.low, *run.Least(figure));
    side.high = std::max(side.high, *value);
    side.mean += *value / runs.size();
  }
  return side;
}

FigureChange ChangeOf(Figure figure, absl::Span<const RunFigures> a, absl::Span<const RunFigures> b) {
  FigureChange row = {.figure = figure, .a = SideOf(figure, a), .b = SideOf(figure, b)};
  if (!row.a || !row.b) return row;
  const double best = row.b->mean - row.a->mean;
  uint64_t workers = 0;
  for (const auto& side : {a, b}) {
    for (const RunFigures& run : side) workers = std::max(workers, run.workers);
  }
  const double tolerance = ToleranceOf(figure, std::max(row.a->mean, row.b->mean), workers, a[0].page_bytes);
  row.change = Estimate{.low = std::min(best - tolerance, row.b->low - row.a->high),
                        .best = best,
                        .high = std::max(best + tolerance, row.b->high - row.a->low)};
  for (const auto& side : {a, b}) {
    if (figure == Figure::kCopiedPerBatch && absl::c_any_of(side, [](const auto& run) { return run.several_epochs; }))
      return row;
  }
  row.verdict = row.change->low > 0 ? Change::kWorse : row.change->high < 0 ? Change::kBetter : Change::kSame;
  return row;
}

// `parts` selects lines or types.
std::vector<PartChange> PartsChanged(absl::Span<const RunFigures> a, absl::Span<const RunFigures> b,
                                     CopiedParts RunFigures::*parts) {
  std::map<PartName, PartChange> rows;
  for (const bool of_b : {false, true}) {
    const absl::Span<const RunFigures> side = of_b ? b : a;
    for (const RunFigures& run : side) {
      for (const auto& [name, part] : run.*parts) {
        PartChange& row = rows[name];
        row.name = name;
        (of_b ? row.b : row.a) += static_cast<double>(part.bytes) / side.size();
        const double own = std::max(part.uncertainty, ToleranceOf(Figure::kCopied, part.bytes, 1, run.page_bytes));
        row.uncertainty = std::hypot(row.uncertainty, own / side.size());
        std::vector<int>* numbers = of_b ? &row.numbers_b : &row.numbers_a;
        numbers->insert(numbers->end(), part.numbers.begin(), part.numbers.end());
      }
    }
  }
  std::vector<PartChange> sorted;
  for (auto& [name, row] : rows) {
    for (std::vector<int>* numbers : {&row.numbers_a, &row.numbers_b}) {
      absl::c_sort(*numbers);
      numbers->erase(std::unique(numbers->begin(), numbers->end()), numbers->end());
    }
    sorted.push_back(std::move(row));
  }
  absl::c_stable_sort(sorted, [](const PartChange& left, const PartChange& right) {
    return std::tuple(left.certain(), std::abs(left.b - left.a), std::max(left.a, left.b)) >
           std::tuple(right.certain(), std::abs(right.b - right.a), std::max(right.a, right.b));
  });
  return sorted;
}

// Why a recording has no lines and types; "": it has them, or nothing was copied.
std::string WhyUnnamed(const RunFigures& run) {
  return run.lines.empty() && run.Get(Figure::kCopied) != 0.0 ? WhyMissing(run, "stacks") : "";
}

// The same of lines, which the page map lacks where it has types.
std::string WhyNoLines(const RunFigures& run) {
  const bool lacks = run.exactness == Exactness::kPageMap && run.Get(Figure::kCopied) != 0.0;
  return lacks ? "the page map has no stacks" : WhyUnnamed(run);
}

// Which of A's remedies B has. B's program is not read: another start method shows; that the collector copies less
// while reference counts copy as before, too; if those copy less, it is taken for the one that moves items out of
// objects. "": none that shows.
std::string RemedyIn(const RunFigures& a, const RunFigures& b) {
  if (a.start_method != b.start_method) return "spawn";
  const auto left = [&](Cause cause) {
    const uint64_t before = a.causes[static_cast<int>(cause)];
    return before == 0 ? 1 : static_cast<double>(b.causes[static_cast<int>(cause)]) / before;
  };
  if (left(Cause::kGcHeader) < 0.5 && left(Cause::kRefcount) > 0.7) return "gc-freeze";
  if (left(Cause::kRefcount) > 0.5) return "";
  for (const Remedy& remedy : a.remedies) {
    if (remedy.id == "serialise" || remedy.id == "stack-tensors") return remedy.id;
  }
  return "";
}

std::optional<Prediction> PredictionOf(const RunFigures& a, const RunFigures& b, const FigureChange* peak) {
  if (peak == nullptr || !peak->change) return std::nullopt;
  const std::string id = RemedyIn(a, b);
  for (const Remedy& remedy : a.remedies) {
    if (remedy.id == id && remedy.saves)
      return Prediction{id, *remedy.saves, -peak->change->best, kPagesOfWorker * a.workers * a.page_bytes};
  }
  return std::nullopt;
}

}  // namespace

const FigureChange* Comparison::Find(Figure figure) const {
  const auto found = absl::c_find_if(figures, [&](const FigureChange& row) { return row.figure == figure; });
  return found == figures.end() ? nullptr : &*found;
}

double ToleranceOf(Figure figure, double value, uint64_t workers, uint64_t page_bytes) {
  switch (figure) {
    case Figure::kCopied:
      return std::max(kCopiesRepeat * value, kPagesOfWorker * workers * page_bytes);
    case Figure::kCopiedPerBatch:
      return kAlikeBatches * value;
    case Figure::kPrivatePeak:
    case Figure::kPlateau:
    case Figure::kShmPeak:
      return std::max(kPeaksRepeat * value, kPagesOfWorker * workers * page_bytes);
    case Figure::kCopyTime:
      return kTimesRepeat * value;
  }
  return value;
}

std::vector<std::string> ObstaclesTo(const RunFigures& a, const RunFigures& b) {
  std::vector<std::string> out;
  AddDefects(a, &out);
  AddDefects(b, &out);
  if (a.exactness != b.exactness || a.rung != b.rung)
    out.push_back(Differ(a, b, absl::StrCat(NameOf(a.exactness), " counts (", Printable(a.rung), ")"),
                         absl::StrCat(NameOf(b.exactness), " ones (", Printable(b.rung), ")")));
  if (a.page_bytes != b.page_bytes)
    out.push_back(Differ(a, b, absl::StrCat("pages of ", HumanBytes(a.page_bytes)), HumanBytes(b.page_bytes)));
  if (a.python != b.python)
    out.push_back(Differ(a, b, a.python.empty() ? "no Python" : absl::StrCat("Python ", Printable(a.python)),
                         b.python.empty() ? "none" : Printable(b.python)));
  const bool both_have_workers = a.start_method != "none" && b.start_method != "none";
  const uint64_t ranks_a = std::max<uint64_t>(a.ranks, 1), ranks_b = std::max<uint64_t>(b.ranks, 1);
  if (ranks_a != ranks_b)
    out.push_back(Differ(a, b, Plural(ranks_a, "rank"), HumanCount(ranks_b)));
  else if (both_have_workers && a.workers != b.workers)
    out.push_back(Differ(a, b, Plural(a.workers, "worker"), HumanCount(b.workers)));
  if (a.batches && b.batches) {
    // The last ones of each worker are not seen.
    const double slack = 2.0 * std::max(a.workers, b.workers) + std::max(a.unseen_batches, b.unseen_batches);
    if (std::abs(static_cast<double>(*a.batches) - static_cast<double>(*b.batches)) > slack &&
        !AreAlike(*a.batches, *b.batches, kAlikeBatches))
      out.push_back(Differ(a, b, absl::StrCat(HumanCount(*a.batches), " batches"), HumanCount(*b.batches)));
  } else if (!(a.to_end && b.to_end) &&
             !AreAlike(absl::ToDoubleSeconds(a.duration), absl::ToDoubleSeconds(b.duration), kAlikeTimes)) {
    out.push_back(absl::StrCat(Printable(a.path), " took ", HumanDuration(a.duration), ", ", Printable(b.path), " ",
                               HumanDuration(b.duration), ", and no batches are known."));
  }
  return out;
}

namespace {

// Differences that leave the recordings comparable and may explain the result. `of_a`, `of_b`: how they are called.
std::vector<std::string> NotesOn(const RunFigures& a, const RunFigures& b, const std::string& of_a,
                                 const std::string& of_b) {
  std::vector<std::string> out;
  if (a.start_method != b.start_method && a.start_method != "none" && b.start_method != "none")
    out.push_back(absl::StrCat(of_a, " starts its workers by ", a.start_method, ", ", of_b, " by ", b.start_method,
                               ": what is sent to a worker is its own, not a copy, so the peak decides."));
  if (a.command != b.command)
    out.push_back(absl::StrCat(of_a, " ran ", Quoted(a.command), ", ", of_b, " ", Quoted(b.command), "."));
  if (a.cpus != b.cpus)
    out.push_back(absl::StrCat(of_a, " ran on ", Plural(a.cpus, "CPU"), ", ", of_b, " on ", b.cpus,
                               ": thread pools and malloc arenas grow with it."));
  if (a.kernel != b.kernel)
    out.push_back(
        absl::StrCat(of_a, " ran on Linux ", Printable(a.kernel), ", ", of_b, " on ", Printable(b.kernel), "."));
  if (a.version != b.version)
    out.push_back(absl::StrCat(of_a, " was recorded by cowprof ", Printable(a.version), ", ", of_b, " by ",
                               Printable(b.version), "."));
  const double most_shm = std::max(a.shm_at_start, b.shm_at_start);
  if (std::abs(a.shm_at_start - b.shm_at_start) > ToleranceOf(Figure::kShmPeak, most_shm, a.workers, a.page_bytes))
    out.push_back(absl::StrCat("/dev/shm held ", HumanBytes(SaturatingCast(a.shm_at_start)), " when ", of_a, " began, ",
                               HumanBytes(SaturatingCast(b.shm_at_start)), " when ", of_b, " did."));
  for (const RunFigures* run : {&a, &b}) {
    if (!run->SawAllPrivate())
      out.push_back(absl::StrCat("The private memory of a worker of ", Printable(run->path),
                                 " was not seen: the peak may have been higher."));
    if (!run->ends_known)
      out.push_back(
          absl::StrCat("How some processes of ", Printable(run->path), " ended is unknown: one may have failed."));
  }
  return out;
}

double MeanOf(double RunFigures::*figure, absl::Span<const RunFigures> runs) {
  double sum = 0;
  for (const RunFigures& run : runs) sum += run.*figure;
  return sum / runs.size();
}

// What moved to /dev/shm, or came there beside the workers' memory, if it is more than left their peak. Bytes.
std::optional<double> MoreShmOf(const Comparison& of, absl::Span<const RunFigures> a, absl::Span<const RunFigures> b) {
  const FigureChange* peak = of.Find(Figure::kPrivatePeak);
  const FigureChange* shm = of.Find(Figure::kShmPeak);
  if (shm == nullptr || !shm->change) return std::nullopt;
  // What others had there before is not of the program. What A found beyond B may be its own, unless that is known.
  const double found = MeanOf(&RunFigures::shm_at_start, b);
  const double before = std::max(found - MeanOf(&RunFigures::shm_at_start, a),
                                 std::min(found - MeanOf(&RunFigures::shm_of_others, a), 0.0)),
               less = peak != nullptr && peak->change ? -peak->change->best : 0;
  const double more = shm->change->best - before;
  const bool certain = shm->b->low - shm->a->high > before &&
                       more > ToleranceOf(Figure::kShmPeak, shm->b->mean, b[0].workers, b[0].page_bytes);
  return certain && more >= std::max(less, 0.0) ? std::optional(more) : std::nullopt;
}

}  // namespace

Comparison Compare(absl::Span<const RunFigures> a, absl::Span<const RunFigures> b) {
  Comparison of;
  const auto add = [](const std::string& sentence, std::vector<std::string>* to) {
    if (!absl::c_linear_search(*to, sentence)) to->push_back(sentence);
  };
  for (const auto& side : {a, b}) {
    for (const RunFigures& run : side) {
      for (const std::string& obstacle : ObstaclesTo(a[0], run)) add(obstacle, &of.obstacles);
    }
  }
  const RunFigures& first = a[0];
  const RunFigures& second = b[0];
  of.notes = NotesOn(first, second, "A", "B");
  bool same_start = true;
  for (const auto& side : {a, b}) {
    for (const RunFigures& run : side) {
      same_start &= run.start_method == first.start_method;
      for (const std::string& note : NotesOn(side[0], run, Printable(side[0].path), Printable(run.path)))
        add(note, &of.notes);
    }
  }
  for (const Figure figure : kAll<Figure>) {
    FigureChange row = ChangeOf(figure, a, b);
    if (row.a || row.b) of.figures.push_back(row);
  }
  // What one recording could not see is not gone in it.
  // Whether all have them, or all lack them for the same reason. Otherwise a note says which lacks them.
  const auto alike = [&](absl::string_view parts, std::string (*why)(const RunFigures&)) {
    const RunFigures* unlike = nullptr;
    for (const auto& side : {a, b}) {
      for (const RunFigures& run : side) {
        if (why(run) != why(first)) unlike = why(run).empty() ? &first : &run;
      }
    }
    if (unlike != nullptr) {
      of.notes.push_back(absl::StrCat(parts, " are not compared: those of ", Printable(unlike->path),
                                      " are not known: ", why(*unlike), "."));
    }
    return unlike == nullptr;
  };
  if (alike("Lines and types", WhyUnnamed)) {
    if (alike("Lines", WhyNoLines)) of.lines = PartsChanged(a, b, &RunFigures::lines);
    of.types = PartsChanged(a, b, &RunFigures::types);
  }
  if (!of.obstacles.empty()) return of;
  const FigureChange* peak = of.Find(Figure::kPrivatePeak);
  const FigureChange* copied = of.Find(Figure::kCopied);
  if (peak != nullptr) of.verdict = peak->verdict;
  if (same_start && copied != nullptr && copied->verdict && of.verdict.value_or(Change::kSame) == Change::kSame)
    of.verdict = copied->verdict;
  if (of.verdict) of.more_shm = MoreShmOf(of, a, b);
  if (of.more_shm) {
    // On the host's, other programs come and go: it decides only where the workers have less, which may have moved.
    const bool moved = peak != nullptr && peak->verdict == Change::kBetter;
    const bool of_host = absl::c_any_of(b, [](const RunFigures& run) { return run.shm_of_host; });
    if (moved || !of_host) of.verdict = Change::kWorse;
    if (of_host) of.notes.push_back("/dev/shm is the host's: part of the difference may be another program's.");
  }
  of.prediction = PredictionOf(first, second, peak);
  return of;
}

}  // namespace cowprof
