# before: each worker's collector writes the header of every inherited object
app = Celery("app")

# after: the collector skips all objects that exist at the fork
import gc
from celery.signals import worker_init

app = Celery("app")

@worker_init.connect  # in the parent, before the pool is forked; not worker_process_init
def before_fork(**arguments):
    gc.collect()
    gc.freeze()
