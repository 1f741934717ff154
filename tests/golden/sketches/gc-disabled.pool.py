# before: the parent has called gc.disable(), and its workers inherit that
pool = multiprocessing.Pool(4)

# after: the workers collect what they create
import gc
pool = multiprocessing.Pool(4, initializer=gc.enable)
