"""Fills the GPU with PyTorch until it reports out of memory, frees, and goes on. Prints `key value` lines."""

import os
import torch

chunks = []
free, total = torch.cuda.mem_get_info()
print("total_mib", total >> 20, "free_mib", free >> 20)
for attempt in range(2):
    error = "none"
    try:
        while True:
            chunks.append(torch.empty(128 << 20, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        error = "OutOfMemoryError"
    listing = os.popen("nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits").read()
    own = [line.split(",")[1].strip() for line in listing.splitlines() if line.split(",")[0] == str(os.getpid())]
    print("round", attempt, "error", error, "reserved_mib", torch.cuda.memory_reserved() >> 20, "own_mib", own[0] if own else "?")
    chunks.clear()
    torch.cuda.empty_cache()
print("works", float((torch.ones(1024, 1024, device="cuda") @ torch.ones(1024, 1024, device="cuda"))[0, 0]))
