# before: each worker's collector writes the header of every inherited object
executor = ProcessPoolExecutor(4)

# after: the collector skips all objects that exist at the fork
import gc
gc.collect()
gc.freeze()
executor = ProcessPoolExecutor(4)
