#include "watch/join.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"

using namespace cowprof;

namespace {

constexpr const char* kHead = "# HELP cowprof_a Some \"help\".\n# TYPE cowprof_a gauge\n";

bool Parses(absl::string_view rows) {
  std::vector<MetricFamily> families;
  return ParseMetrics(absl::StrCat(kHead, rows), &families);
}

}  // namespace

TEST_CASE("join: one head a family, and a label for whose row it is") {
  std::vector<MetricFamily> one, two;
  REQUIRE(ParseMetrics(absl::StrCat(kHead, "cowprof_a 1\n"), &one));
  REQUIRE(
      ParseMetrics(absl::StrCat(kHead, "cowprof_a{rank=\"7\"} NaN\n# HELP cowprof_b B.\n# TYPE cowprof_b histogram\n",
                                "cowprof_b_bucket{le=\"+Inf\"} 3\ncowprof_b_sum 1e+300\ncowprof_b_count 3\n"),
                   &two));
  CHECK(JoinMetrics({{"0", &one}, {"12", &two}}) ==
        absl::StrCat(kHead, "cowprof_a{recorder=\"0\"} 1\ncowprof_a{recorder=\"12\",rank=\"7\"} NaN\n",
                     "# HELP cowprof_b B.\n# TYPE cowprof_b histogram\n",
                     "cowprof_b_bucket{recorder=\"12\",le=\"+Inf\"} 3\ncowprof_b_sum{recorder=\"12\"} 1e+300\n",
                     "cowprof_b_count{recorder=\"12\"} 3\n"));
  CHECK(JoinMetrics({}).empty());
}

TEST_CASE("join: what could break the page of all is refused as a whole") {
  CHECK(Parses("cowprof_a{x=\"quote \\\" newline \\n back \\\\ { } , =\"} 1\n"));
  for (const char* rows :
       {"cowprof_b 1\n", "up 1\n", "cowprof_a\n", "cowprof_a x\n", "cowprof_a 1 2\n", "cowprof_a{} 1\n",
        "cowprof_a{x=\"1\"\n", "cowprof_a{x=\"a\"b\"} 1\n", "cowprof_a{x=\"\\t\"} 1\n", "cowprof_a{x=\"1} 1\n",
        "cowprof_a{recorder=\"3\"} 1\n", "cowprof_a{x=\"1\"}1\n", "cowprof_a 1\ncowprof_a 1\n", "cowprof_a_total 1\n",
        "# EOF\n", "# TYPE cowprof_b gauge\n", "# HELP cowprof_a Again.\n", "# HELP up Not ours.\n", "cowprof_a  1\n"})
    CHECK_FALSE(Parses(rows));
  std::vector<MetricFamily> families;
  CHECK_FALSE(ParseMetrics("cowprof_a 1\n", &families));
  CHECK_FALSE(ParseMetrics("# TYPE cowprof_a gauge\n", &families));
}

TEST_CASE("join: who says that it has ended") {
  const auto says = [](absl::string_view rows) {
    std::vector<MetricFamily> families;
    REQUIRE(ParseMetrics(absl::StrCat(kHead, "cowprof_a 0\n# HELP cowprof_recording R.\n", rows), &families));
    return SaysItHasEnded(families);
  };
  CHECK(says("cowprof_recording 0\n"));
  CHECK(says("cowprof_recording{job_id=\" 1\",rank=\"7\"} 0\n"));
  CHECK_FALSE(says("cowprof_recording{rank=\"0\"} 1\n"));
  CHECK_FALSE(says(""));
  CHECK_FALSE(SaysItHasEnded({}));
}
