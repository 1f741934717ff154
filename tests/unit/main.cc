// The one place that builds Catch2's own main(); every *_test.cc beside it mirrors a file of userspace/.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
