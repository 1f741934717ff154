// Which programs can be started, before one is.
#include "recorder/target.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <string>

#include "fixture_tree.h"

namespace cowprof {

TEST_CASE("a program that can't be started is told by its name and PATH") {
  FixtureTree tree;
  const std::string root = tree.root(), path = getenv("PATH");
  tree.Write("/plain/tool", "");
  tree.Write("/good/tool", "");
  tree.Write("/plain/text", "");
  REQUIRE(chmod((root + "/plain/tool").c_str(), 0644) == 0);
  REQUIRE(chmod((root + "/plain/text").c_str(), 0644) == 0);
  REQUIRE(chmod((root + "/good/tool").c_str(), 0755) == 0);
  REQUIRE(setenv("PATH", (root + "/nowhere:" + root + "/plain:" + root + "/good").c_str(), 1) == 0);
  CHECK(CheckProgram("tool").ok());
  CHECK(CheckProgram("text").code() == absl::StatusCode::kPermissionDenied);
  CHECK(CheckProgram("typo").code() == absl::StatusCode::kNotFound);
  CHECK(CheckProgram("typo").message() == "start typo: No such file or directory");
  CHECK(CheckProgram(root + "/good/tool").ok());
  CHECK(CheckProgram(root + "/plain/tool").code() == absl::StatusCode::kPermissionDenied);
  CHECK(CheckProgram("./typo").code() == absl::StatusCode::kNotFound);
  CHECK(CheckProgram(root + "/good/tool/below").ok());  // another error: the exec says which
  REQUIRE(setenv("PATH", path.c_str(), 1) == 0);
}

}  // namespace cowprof
