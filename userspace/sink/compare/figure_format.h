// Words for figures and for what has changed; shared by the outputs of diff, check and prove, and by the page of two.
// Pure.
#ifndef COWPROF_SINK_COMPARE_FIGURE_FORMAT_H_
#define COWPROF_SINK_COMPARE_FIGURE_FORMAT_H_

#include <string>

#include "model/judge/comparison.h"

namespace cowprof {

std::string LabelOf(Figure figure);                    // "private peak of the workers"
std::string AmountText(Figure figure, double value);   // "468.0 MiB", "0.42 s"
std::string ChangeText(Figure figure, double change);  // "-439.9 MiB", "+0.12 s"
std::string PercentText(double from, double change);   // "(-94 %)"; "" where `from` is 0
// "Predicted (serialise): 30.3 MiB to 37.9 MiB less at the peak; measured: 35.0 MiB less."
std::string PredictionText(const Prediction& prediction);
std::string NameText(const PartName& name);       // "train.py: __getitem__, via pandas"
std::string NumbersText(const PartChange& part);  // "12 -> 13"; "" of a type
std::string KindText(const PartChange& part);     // "new", "gone", "more", "less", "~": not certain
// "a.json: 4 workers, fork, Python 3.13, 300 batches, 10 s, exact counts (btf-tracepoints)"
std::string RunText(const RunFigures& run);

}  // namespace cowprof

#endif  // COWPROF_SINK_COMPARE_FIGURE_FORMAT_H_
