// A comparison of two sides of recordings: in words, as Markdown, as annotations of GitHub, as JUnit XML, as
// cowprof.diff/1 (schema/diff.schema.json), whose keys belong to this directory, and as a part of the page. Pure.
#ifndef COWPROF_SINK_COMPARE_DIFF_H_
#define COWPROF_SINK_COMPARE_DIFF_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "model/judge/comparison.h"

namespace cowprof {

struct Diff {
  std::vector<RunFigures> a, b;
  Comparison comparison;
};

// "Better: at their peak, the workers hold 412.0 MiB less private memory (-88 %), and they copy 420.1 MiB less (-94
// %)." Where they can't be compared: "Can't be compared: ...".
std::string DiffSentence(const Diff& diff);

std::string DiffText(const Diff& diff);
std::string DiffMarkdown(const Diff& diff);  // the first line is a marker for tools that edit a comment in place
std::string DiffGithub(const Diff& diff);
std::string DiffJunit(const Diff& diff);
nlohmann::ordered_json DiffJson(const Diff& diff);
// What the page of two recordings shows of the comparison (`comparisons` in docs/timeline.md): from A to B, and back.
nlohmann::ordered_json ComparisonsJson(const Diff& diff);

}  // namespace cowprof

#endif  // COWPROF_SINK_COMPARE_DIFF_H_
