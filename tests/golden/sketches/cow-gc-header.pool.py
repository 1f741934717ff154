# before: each worker's collector writes the header of every inherited object
pool = multiprocessing.Pool(4)

# after: the collector skips all objects that exist at the fork
import gc
gc.collect()
gc.freeze()
pool = multiprocessing.Pool(4)
