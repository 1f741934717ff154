#!/usr/bin/python3
"""torchrun, also where torch was built without libuv, as Debian's is: there its own store asks for libuv and fails."""
import functools

import torch.distributed

torch.distributed.TCPStore = functools.partial(torch.distributed.TCPStore, use_libuv=False)

from torch.distributed.run import main  # noqa: E402

if __name__ == "__main__":
    main()
