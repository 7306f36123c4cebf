"""Time of a training step: a small transformer, bf16, AdamW. Prints the milliseconds of 100 steps."""

import time
import torch

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 4).cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters())
batch = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16)
times = []
for step in range(140):
    begin = time.perf_counter()
    optimizer.zero_grad()
    model(batch).float().pow(2).mean().backward()
    optimizer.step()
    torch.cuda.synchronize()
    if step >= 40:
        times.append(time.perf_counter() - begin)
print("step_ms", *(round(value * 1000, 4) for value in times))
