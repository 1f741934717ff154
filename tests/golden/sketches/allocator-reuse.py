# before: workers allocate in inherited memory that the parent had freed, and so copy it
loader = DataLoader(data, num_workers=4)

# after: freed memory goes back to the kernel first (glibc)
import ctypes
ctypes.CDLL(None).malloc_trim(0)
loader = DataLoader(data, num_workers=4)
