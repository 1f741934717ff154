// What a recording is read from besides a file of its own: a pipe, several in one file, gzip.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fixture_tree.h"
#include "json_schema.h"
#include "posix/fd.h"
#include "random_recording.h"
#include "timeline/timeline_file.h"

namespace cowprof {
namespace {

// The bytes of a finished recording.
std::string Recorded(const std::string& path) {
  RandomRecording recording(12);
  auto file = TimelineFile::Create(path, recording.Info());
  REQUIRE(file.ok());
  for (int i = 0; i < 3; ++i) REQUIRE((*file)->Write(recording.Next(), {}).ok());
  REQUIRE((*file)->Finish(absl::Seconds(9), "target ended").ok());
  return ReadWhole(path);
}

}  // namespace

TEST_CASE("a recording comes through a pipe, also one that another program reformatted") {
  FixtureTree tree;
  const std::string whole = Recorded(tree.root() + "/t.json");
  const nlohmann::ordered_json document = nlohmann::ordered_json::parse(whole);
  Run of_file;
  REQUIRE(ReadRun(tree.root() + "/t.json", &of_file).ok());
  for (const std::string& text : {whole, document.dump(), document.dump(2)}) {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    const Fd reader(ends[0]);
    Fd writer(ends[1]);
    fcntl(writer.fd(), F_SETPIPE_SZ, 1 << 20);
    REQUIRE(write(writer.fd(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    writer.Close();
    Run run;
    const auto contents = ReadRun(absl::StrCat("/proc/self/fd/", reader.fd()), &run);
    INFO(contents.status());
    REQUIRE(contents.ok());
    CHECK(contents->complete);
    CHECK(run.model.t == of_file.model.t);
    CHECK(run.model.processes.size() == of_file.model.processes.size());
  }
}

TEST_CASE("recordings that were put together in one file are refused, also where the first has no end record") {
  FixtureTree tree;
  const std::string whole = Recorded(tree.root() + "/t.json");
  const std::string killed = absl::StrCat(whole.substr(0, whole.rfind("\n,{")), "\n]}\n");
  const auto read = [&](const std::string& text) {
    Run run;
    tree.Write("/all.json", text);
    return ReadRun(tree.root() + "/all.json", &run);
  };
  for (const std::string& first : {whole, killed}) {
    REQUIRE(read(first)->complete == (first == whole));
    const absl::Status status = read(first + whole).status();
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(absl::StrContains(status.message(), "give each as a file of its own"));
  }
  CHECK(read(whole + "\n")->complete);
  CHECK(read(whole.substr(0, whole.size() - 2))->complete);  // cut off in its closing
}

TEST_CASE("what is packed with gzip is named") {
  FixtureTree tree;
  tree.Write("/t.json.gz", std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10));
  Run run;
  const absl::Status status = ReadRun(tree.root() + "/t.json.gz", &run).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::EndsWith(status.message(), "t.json.gz: it is packed with gzip; unpack it first"));
}

}  // namespace cowprof
