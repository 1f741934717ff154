// The names of files: %h, %j and %r.
#include <catch2/catch.hpp>

#include "recorder/set_up.h"

namespace cowprof {

TEST_CASE("names of files: host, job and rank, as safe as they have to be") {
  RunIdentity identity = {.host = "node1", .boot_id = "", .rank = {}, .labels = {}};
  CHECK(ExpandName("%h-%j-%r-%%j.json", identity) == "node1-none-none-%j.json");
  identity.rank = {RankSource::kTorch, 3u, 1u, 8u, "../../7"};
  CHECK(ExpandName("%h-%j-%r.json", identity) == "node1-.._.._7-3.json");
  identity.rank.job_id = "..";
  CHECK(ExpandName("a/%j/%j.json", identity) == "a/__/__.json");
  identity.rank.job_id = ".";
  CHECK(ExpandName("a/%j%j/b.%j", identity) == "a/__/b._");
}

TEST_CASE("names of files: --label job_id counts more than the environment, as in the metrics") {
  RunIdentity identity = {.host = "node1", .boot_id = "", .rank = {}, .labels = {{"job_id", "a/b"}}};
  CHECK(ExpandName("%j", identity) == "a_b");
  identity.rank = {RankSource::kTorch, 3u, 1u, 8u, "7"};
  CHECK(ExpandName("%j-%r", identity) == "a_b-3");
}

}  // namespace cowprof
