# before: workers allocate in inherited memory that the parent had freed, and so copy it
app = Celery("app")

# after: freed memory goes back to the kernel first (glibc)
import ctypes
from celery.signals import worker_init

app = Celery("app")

@worker_init.connect  # in the parent, before the pool is forked; not worker_process_init
def before_fork(**arguments):
    ctypes.CDLL(None).malloc_trim(0)
