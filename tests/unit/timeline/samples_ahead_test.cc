// The same samples, in the same order, with a thread and without.
#include "timeline/samples_ahead.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <new>
#include <sstream>
#include <streambuf>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

struct Read {
  std::vector<Sample> samples;
  std::vector<size_t> raised;
  size_t bytes = 0;
  absl::Status status;
  bool complete = false, stopped_by_target = false;
  bool operator==(const Read&) const = default;
};

Read ReadAll(const std::string& lines, bool ahead) {
  std::istringstream in(lines);
  SamplesAhead samples(&in, ahead);
  Read read;
  while (samples.Next()) {
    read.samples.push_back(samples.sample());
    read.raised.push_back(samples.raised().size());
    read.bytes += samples.bytes();
  }
  CHECK_FALSE(samples.Next());
  const SampleReader& reader = samples.reader();
  read.status = reader.status();
  read.complete = reader.complete();
  read.stopped_by_target = reader.stopped_by_target();
  return read;
}

std::string SampleAt(int t, size_t rows) {
  std::string line = absl::StrCat(",{\"t\":", t, ",\"type\":\"sample\",\"processes\":[[0,1]");
  for (size_t i = 1; i < rows; ++i) absl::StrAppend(&line, ",[", i, ",", t, "]");
  return absl::StrCat(line, "]}\n");
}

constexpr char kAlert[] = ",{\"t\":1,\"type\":\"alert\",\"rule\":\"ratio\"}\n";

TEST_CASE("samples ahead: each is as it is in the file, also in the place of an earlier one", "[samples_ahead]") {
  constexpr int kSamples = 20'000;
  std::string lines;
  for (int t = 0; t < kSamples; ++t) {
    const std::string pages = t % 7 == 0 ? absl::StrCat(",\"pages\":[[0,\"data\",", t, ",[1]]]") : "";
    absl::StrAppend(&lines, t % 10 == 0 ? kAlert : "", ",{\"t\":", t, ",\"type\":\"sample\",\"processes\":[[0,", t,
                    "],[", 1 + t % 20, ",1]]", pages, "}\n");
  }
  for (const bool ahead : {true, false}) {
    std::istringstream in(lines);
    SamplesAhead samples(&in, ahead);
    int t = 0;
    for (; samples.Next(); ++t) {
      const Sample& sample = samples.sample();
      const bool right = sample.t == absl::Seconds(t) && sample.processes.at(0).counts.faults == Count(t) &&
                         samples.raised().size() == (t % 10 == 0) && sample.pages.size() == (t % 7 == 0);
      if (!right) FAIL("the sample at " << t << " s");
    }
    CHECK(t == kSamples);
  }
}

TEST_CASE("samples ahead: small and large ones, and each ending", "[samples_ahead]") {
  std::string lines;
  for (int t = 0; t < 300; ++t) lines += SampleAt(t, 1 + t % 7);
  for (int t = 300; t < 310; ++t) lines += SampleAt(t, t % 5 == 0 ? 3000 : 1);  // later ones have all these processes
  struct Ending {
    std::string lines;
    bool complete = false, by_target = false, ok = true;
  };
  const Ending endings[] = {
      {""},
      {"\n"},
      {"]}\n"},
      {",{\"t\":7,\"type\":\"sa"},
      {"no record\n,{\"t\":7,\"type\":\"sample\"}\n"},
      {",{\"t\":7,\"type\":\"end\",\"reason\":\"stopped by the target\"}\n]}\n", true, true},
      {",{\"t\":7,\"type\":\"end\"}\n,{\"t\":8,\"type\":\"sample\"}\n", true, false, false},
      {"{\"schema\":\"cowprof\"}\n", false, false, false},
  };
  for (const Ending& ending : endings) {
    CAPTURE(ending.lines);
    const Read read = ReadAll(lines + ending.lines, /*ahead=*/true);
    CHECK(read.samples.size() == 310);
    CHECK(read.bytes == lines.size());
    CHECK(read.status.ok() == ending.ok);
    CHECK(read.complete == ending.complete);
    CHECK(read.stopped_by_target == ending.by_target);
    CHECK(read == ReadAll(lines + ending.lines, /*ahead=*/false));
  }
  CHECK(ReadAll("", /*ahead=*/true).samples.empty());
}

TEST_CASE("samples ahead: a line that is too long is told after the samples before it", "[samples_ahead]") {
  const std::string lines = absl::StrCat(SampleAt(1, 1), SampleAt(2, 1), std::string(kMostBytesOfLine + 1, ' '));
  for (const bool ahead : {true, false}) {
    const Read read = ReadAll(lines, ahead);
    CHECK(read.samples.size() == 2);
    CHECK(read.status.message() == "the record after 2s has more than 64 MiB");
  }
}

// Gives lines as they are asked for, and counts them.
class Lines : public std::streambuf {
 public:
  explicit Lines(std::function<std::string(int)> next) : next_(std::move(next)) {}
  int given() const { return given_; }

 private:
  int_type underflow() override {
    line_ = next_(given_++);
    setg(line_.data(), line_.data(), line_.data() + line_.size());
    return line_.empty() ? traits_type::eof() : traits_type::to_int_type(line_[0]);
  }
  std::function<std::string(int)> next_;
  std::string line_;
  std::atomic<int> given_ = 0;  // read by the thread of a test, too
};

TEST_CASE("samples ahead: what the thread throws comes from Next()", "[samples_ahead]") {
  Lines lines([](int i) -> std::string {
    if (i == 3) throw std::bad_alloc();
    return SampleAt(i, 1);
  });
  std::istream in(&lines);
  in.exceptions(std::ios::badbit);  // passes on what the buffer throws
  SamplesAhead samples(&in, /*ahead=*/true);
  CHECK_THROWS_AS(samples.Next(), std::bad_alloc);
}

TEST_CASE("samples ahead: what is kept from sample to sample counts, however short the lines are", "[samples_ahead]") {
  const std::string name(1 << 20, 'x');
  Lines lines([&](int i) {
    if (i > 0) return absl::StrCat(",{\"t\":", i, ",\"type\":\"sample\"}\n");
    return absl::StrCat(",{\"t\":0,\"type\":\"sample\",\"new_limits\":[{\"kind\":\"host\",\"name\":\"", name,
                        "\"}],\"limits\":[[0,1,2]]}\n");
  });
  std::istream in(&lines);
  SamplesAhead samples(&in, /*ahead=*/true);
  for (int i = 0; i < 10; ++i) REQUIRE(samples.Next());
  CHECK(samples.sample().limits.at(0).name == name);
  CHECK(lines.given() < 30);
}

TEST_CASE("samples ahead: who needs no more of them does not wait for the rest", "[samples_ahead]") {
  for (const int taken : {0, 1, 300, 5000}) {
    Lines lines([](int i) { return SampleAt(i, 20); });  // without end
    std::istream in(&lines);
    SamplesAhead samples(&in, /*ahead=*/true);
    for (int i = 0; i < taken; ++i) REQUIRE(samples.Next());
  }
}

}  // namespace
}  // namespace cowprof
