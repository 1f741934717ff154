# before: each tensor from a worker holds a file descriptor for as long as it is kept
kept = [batch for batch in loader]

# after: a copy holds none
import copy
kept = [copy.deepcopy(batch) for batch in loader]
