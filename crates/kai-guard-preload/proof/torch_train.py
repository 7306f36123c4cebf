"""Time of a training step: a transformer whose steps the GPU bounds, bf16, AdamW. Prints `ready` after the warm-up; from then on every line of
standard input is answered with the milliseconds of the steps of one block."""

import sys
import time
import torch

STEPS_OF_A_BLOCK = 10

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 6).cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters())
batch = torch.randn(32, 512, 1024, device="cuda", dtype=torch.bfloat16)


def step():
    begin = time.perf_counter()
    optimizer.zero_grad()
    model(batch).float().pow(2).mean().backward()
    optimizer.step()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


for _ in range(60):
    step()
print("ready", flush=True)
for _ in sys.stdin:
    print("step_ms", *(round(step() * 1000, 4) for _ in range(STEPS_OF_A_BLOCK)), flush=True)
