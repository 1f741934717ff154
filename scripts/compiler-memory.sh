# Sourced by what builds. Compilers get their memory in huge pages, in large pieces, and keep it: a tenth of the page faults,
# and a fifth less time where a new page takes 12 us.
export GLIBC_TUNABLES=${GLIBC_TUNABLES:+$GLIBC_TUNABLES:}glibc.malloc.hugetlb=1
for tunable in top_pad=67108864 mmap_threshold=33554432 trim_threshold=1073741824; do
  GLIBC_TUNABLES+=:glibc.malloc.$tunable
done
