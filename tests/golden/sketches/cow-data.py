# before: writes to inherited memory, and so copies it, in every worker
def prepare(item):
    item /= 255
    return item

# after: the result is new memory; what was inherited stays as it is
def prepare(item):
    return item / 255
