// Whether /proc belongs to our pid namespace.
#include "source/namespaces.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fixture_tree.h"

using namespace cowprof;

TEST_CASE("the proc of this process is its own") { CHECK(CheckProc().ok()); }

TEST_CASE("a proc that shows us with our pid") {
  FixtureTree tree;
  tree.Link("/proc/self", absl::StrCat(getpid()));
  CHECK(CheckProc(ProcFs(tree.root() + "/proc")).ok());
}

TEST_CASE("a proc in which we have another pid, or none") {
  FixtureTree tree;
  tree.Link("/proc/self", GENERATE(as<std::string>(), "1", "12345678901234567890", "elsewhere"));
  const absl::Status status = CheckProc(ProcFs(tree.root() + "/proc"));
  CHECK(absl::StrContains(status.message(), "another pid namespace"));
  CHECK(absl::StrContains(status.message(), "mount -t proc"));
}

TEST_CASE("no proc") {
  FixtureTree tree;
  const absl::Status status = CheckProc(ProcFs(tree.root() + "/proc"));
  CHECK(absl::StrContains(status.message(), "is not mounted"));
  CHECK(absl::StrContains(status.message(), "mount -t proc"));
}
