// passwd(5) and group(5), whole and broken.
#include "posix/users.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

const char kPasswd[] =
    "root:x:0:0:root:/root:/bin/bash\n"
    "broken:x:1000\n"
    ":x:nobody\n"
    "ann:x:1000:1000:Ann, of room 5:/home/ann:/bin/sh\n"
    "second:x:1000:1000::/elsewhere:/bin/sh\n"
    "last:x:4294967294:1000::/home/last:";
const char kGroup[] =
    "root:x:0:\n"
    "one:x:10:ann\n"
    "many:x:11:bob,ann,annette\n"
    "others:x:12:annette,bob\n"
    "again:x:10:ann\n"
    "broken:x:ann\n"
    "+:::\n"
    "own:x:1000:ann\n"
    "last:x:13:bob,ann";

}  // namespace

TEST_CASE("users in /etc/passwd") {
  REQUIRE(UserIn(kPasswd, 1000));
  CHECK(UserIn(kPasswd, 1000)->name == "ann");
  CHECK(UserIn(kPasswd, 1000)->home == "/home/ann");
  CHECK(UserIn(kPasswd, 0)->home == "/root");
  CHECK(UserIn(kPasswd, 4294967294)->name == "last");
  CHECK_FALSE(UserIn(kPasswd, 1001));
  CHECK_FALSE(UserIn("", 0));
}

TEST_CASE("groups in /etc/group") {
  CHECK(GroupsIn(kGroup, "ann", 1000) == std::vector<gid_t>{1000, 10, 11, 13});
  CHECK(GroupsIn(kGroup, "nobody", 7) == std::vector<gid_t>{7});
  CHECK(GroupsIn(kGroup, "", 7) == std::vector<gid_t>{7});
  CHECK(GroupsIn("", "ann", 7) == std::vector<gid_t>{7});
}

}  // namespace cowprof
