"""Proves libkai_guard.so on a GPU machine: `python3 prove.py LIBRARY REPORT [KAI]`, as root, with a C compiler and PyTorch.
With the program `kai` it also proves that `kai agent reserve` tells processes with the library from others.

Every "container" is a mount namespace with the library behind /etc/ld.so.preload, exactly as a pod has it. Writes a
Markdown table to REPORT and exits with 1 if a row failed.
"""

import datetime
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY, REPORT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
WORK = tempfile.mkdtemp(prefix="kai-guard-proof-")
WORKLOAD = WORK + "/workload"
GIB = 1024
rows = []


def smi(query):
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()


class Container:
    """One container: its limits, its usage region, and a way to run programs in it."""

    count = 0

    def __init__(self, limit_mib, mode="enforce", more=""):
        Container.count += 1
        self.root = f"{WORK}/c{Container.count}"
        for folder in ("lib", "limits", "usage"):
            os.makedirs(f"{self.root}/{folder}")
        subprocess.run(["cp", LIBRARY, f"{self.root}/lib/libkai_guard.so"], check=True)
        with open(f"{self.root}/ld.so.preload", "w") as file:
            file.write("/kai-guard/lib/libkai_guard.so\n")
        with open(f"{self.root}/limits/limits", "w") as file:
            file.write(f"v1 mode={mode} device={UUID},limit={limit_mib}{more}\n")

    def command(self, *command, options=()):
        script = (
            f"mount --bind {self.root} /kai-guard && mount --bind {self.root}/ld.so.preload /etc/ld.so.preload"
            ' && exec "$@"'
        )
        return ["unshare", "-m", *options, "sh", "-c", script, "sh", *command]

    def start(self, *command, options=(), **variables):
        environment = {**os.environ, **variables}
        return subprocess.Popen(
            self.command(*command, options=options),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        )

    def run(self, *command, options=(), **variables):
        process = self.start(*command, options=options, **variables)
        try:
            return process.communicate(timeout=120)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return "timeout\n" + process.communicate()[0]


def plain(*command, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120).stdout


def numbers(text, key):
    return [int(value) for value in re.findall(rf"\b{key} (\d+)", text)]


def row(what, expected, measured, good):
    rows.append((what, expected, measured, "yes" if good else "NO"))
    print("ok  " if good else "FAIL", what, "|", measured, flush=True)


def fill_row(what, text, limit, slack):
    """Allocation stops at the limit, NVML never shows more, and nothing is left charged."""
    own = [value for line in text.splitlines() if line.startswith("round") for value in numbers(line, "own_mib")]
    codes = [value for line in text.splitlines() if line.startswith("round") for value in numbers(line, "code")]
    free = [numbers(line, "free_mib")[0] for line in text.splitlines() if line.startswith(("before", "after"))]
    good = len(own) == 2 and codes == [2, 2] and max(own) <= limit and min(own) >= limit - slack
    good = good and len(free) == 2 and free[0] == free[1]
    row(what, f"{limit} MiB", f"NVML {own} MiB, error {codes}, free before/after {free} MiB" if own else text[-200:], good)


def limits_and_families():
    box = Container(8 * GIB)
    fill_row("(a) limit 8 GiB, linear, 64 MiB chunks", box.run(WORKLOAD, "fill", "linear", "64"), 8192, 66)
    text = box.run("python3", f"{HERE}/torch_fill.py")
    own = numbers(text, "own_mib")
    good = text.count("OutOfMemoryError") == 2 and own and max(own) <= 8192 and min(own) > 8192 - 300 and "works 1024.0" in text
    good = good and numbers(text, "total_mib") == [8192]
    row("(a) limit 8 GiB, PyTorch", "OutOfMemoryError, goes on", f"NVML {own} MiB, total {numbers(text, 'total_mib')} MiB" if own else text[-300:], good)
    for family, mib, slack in [("linear", 1, 66), ("pitch", 64, 130), ("vmm", 64, 66), ("async", 64, 130), ("pool", 64, 130), ("array", 64, 130), ("array3d", 64, 130), ("mipmap", 64, 130)]:
        fill_row(f"(c) {family}, {mib} MiB chunks", Container(8 * GIB).run(WORKLOAD, "fill", family, str(mib)), 8192, slack)
    text = Container(8 * GIB).run(WORKLOAD, "fill", "managed", "64")
    codes, free = numbers(text, "code"), numbers(text, "free_mib")
    row("(c) managed, charged in full", "error 2, nothing leaked", f"allocated {numbers(text, 'allocated_mib')} MiB, error {codes}", codes == [2, 2] and len(free) >= 2 and free[0] == free[-1] and max(numbers(text, "allocated_mib") or [0]) > 7000)
    text = Container(8 * GIB).run(WORKLOAD, "graph", "5000")
    good = "small code 0" in text and "large code 2" in text
    free = [numbers(line, "free_mib")[0] for line in text.splitlines() if line.startswith(("before", "after"))]
    row("(c) graph of 5000 MiB runs, of 10000 MiB is refused", "0, 2", f"codes {numbers(text, 'code')}, free {free} MiB", good and len(free) == 2 and abs(free[0] - free[1]) <= 4)
    text = Container(8 * GIB).run("python3", f"{HERE}/torch_fill.py", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True", PYTORCH_ALLOC_CONF="expandable_segments:True")
    own = numbers(text, "own_mib")
    row("(c) PyTorch expandable_segments (VMM)", "<= 8192 MiB", f"NVML {own} MiB" if own else text[-300:], text.count("OutOfMemoryError") == 2 and bool(own) and max(own) <= 8192)
    text = Container(8 * GIB).run("python3", f"{HERE}/torch_fill.py", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync", PYTORCH_ALLOC_CONF="backend:cudaMallocAsync")
    own = numbers(text, "own_mib")
    row("(c) PyTorch cudaMallocAsync", "<= 8192 MiB", f"NVML {own} MiB" if own else text[-300:], text.count("OutOfMemoryError") == 2 and bool(own) and max(own) <= 8192)


def processes():
    text = Container(8 * GIB).run(WORKLOAD, "fork", "1000")
    used = [numbers(line, "nvml_used_mib")[0] for line in text.splitlines() if line.startswith("parent")]
    child = numbers(text, "child code")
    row("(c) fork: child neither inherits nor frees", "same charge", f"parent {used} MiB, child error {child}", len(used) == 2 and used[0] == used[1] >= 1000 and bool(child) and child[0] != 0)
    for name, options in [("kill -9", ()), ("kill -9, other PID namespace (container restart)", ("-p", "-f", "--mount-proc", "--kill-child=KILL"))]:
        box = Container(8 * GIB)
        holder = box.start(WORKLOAD, "hold", "6000", options=options)
        line = holder.stdout.readline()
        during = box.run(WORKLOAD, "fill", "linear", "64")
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        time.sleep(1)
        after = box.run(WORKLOAD, "fill", "linear", "64")
        before_kill, after_kill = numbers(during, "allocated_mib"), numbers(after, "allocated_mib")
        good = "code 0" in line and before_kill and max(before_kill) < 1300 and after_kill and min(after_kill) > 7400
        row(f"(c) {name} of a process with 6000 MiB", "charge is recovered", f"neighbour process gets {before_kill} MiB before, {after_kill} MiB after", bool(good))
    box = Container(8 * GIB)
    other = box.start(WORKLOAD, "exec", "6000")
    other.stdout.readline()
    time.sleep(1)
    after = numbers(box.run(WORKLOAD, "fill", "linear", "64"), "allocated_mib")
    other.communicate()
    row("(c) exec of another program", "charge is recovered", f"{after} MiB", bool(after) and min(after) > 7400)
    text = Container(2 * GIB).run(WORKLOAD, "hammer", "8", "5000")
    highest, free = numbers(text, "highest_own_mib"), numbers(text, "free_mib")
    good = bool(highest) and highest[0] <= 2048 and numbers(text, "refusals")[0] > 0
    row("(c) 8 threads, all families, limit 2 GiB, 5 s", "<= 2048 MiB", f"highest {highest} MiB, {numbers(text, 'successes')} allocations, {numbers(text, 'refusals')} refusals, free after {free} MiB" if highest else text[-300:], good and free[-1] > 1400)
    box = Container(4 * GIB)
    idle = int(smi("memory.used"))
    sampler = subprocess.Popen(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "20"], stdout=subprocess.PIPE, text=True)
    pair = [box.start(WORKLOAD, "hammer", "4", "4000") for _ in range(2)]
    texts = [process.communicate(timeout=120)[0] for process in pair]
    sampler.terminate()
    samples = [int(line) - idle for line in sampler.communicate()[0].split() if line.isdigit()]
    highest = [numbers(text, "highest_own_mib")[0] for text in texts if numbers(text, "highest_own_mib")]
    row("(c) 2 processes with 4 threads each, limit 4 GiB", "<= 4096 MiB and 128 MiB that NVML shows of no process", f"highest {highest} MiB, card {max(samples)} MiB in {len(samples)} samples, refusals {[numbers(text, 'refusals') for text in texts]}", len(highest) == 2 and len(samples) > 50 and 3000 < max(samples) <= 4096 + 128 and all(sum(numbers(text, "refusals")) > 0 for text in texts))


def side_by_side():
    total = int(smi("memory.total"))
    shares = [int(total * 0.3), int(total * 0.6)]
    boxes = [Container(mib) for mib in shares]
    running = [box.start("python3", f"{HERE}/torch_fill.py") for box in boxes]
    texts = [process.communicate(timeout=200)[0] for process in running]
    totals = [numbers(text, "total_mib") for text in texts]
    own = [numbers(text, "own_mib") for text in texts]
    good = all(t == [s] and o and max(o) <= s for t, o, s in zip(totals, own, shares))
    row("(b) 0.3 and 0.6 of the card side by side, PyTorch", f"totals {shares}", f"totals {totals} MiB, NVML {own} MiB", good)


def burst():
    """Two containers on the card: one may burst above its request, the other gets its request whenever it comes."""
    free = int(smi("memory.free"))
    request, neighbor = 8 * GIB, free - 24 * GIB
    limit = free
    bursting = Container(limit, more=f",request={request},neighbors={neighbor}")
    beside = Container(neighbor, more=f",request={neighbor},neighbors={request}")
    text = bursting.run(WORKLOAD, "fill", "linear", "64")
    own = numbers(text, "own_mib")
    good = bool(own) and request < max(own) <= free - neighbor + 128 and "code 2" in text
    row("burst above the request of 8 GiB", f"{free - neighbor} MiB, what the neighbour did not request", f"NVML {max(own) if own else text[-200:]} MiB of a limit of {limit}", good)
    holder = bursting.start(WORKLOAD, "hold", str(max(own) - 1024 if own else 0))
    line = holder.stdout.readline()
    text = beside.run(WORKLOAD, "fill", "linear", "64")
    own = numbers(text, "own_mib")
    holder.communicate("")
    row("neighbour beside a burst", f"its request of {neighbor} MiB", f"NVML {max(own) if own else text[-200:]} MiB", "code 0" in line and bool(own) and neighbor - 700 <= max(own) <= neighbor)


def driver_reserve():
    """What the reservation pod measures on an idle card is what CUDA does not give."""
    total, free = int(smi("memory.total")), int(smi("memory.free"))
    seen = numbers(plain(WORKLOAD, "info"), "total_mib")
    row("driver reserve: total less free of the idle card", "total less what CUDA shows", f"{total} - {free} = {total - free} MiB, CUDA shows {seen} MiB", bool(seen) and abs(free - seen[0]) <= 64)


def costs():
    """Driver functions: hooked and direct ones take turns in one process."""
    box, off = Container(100 * GIB), Container(100 * GIB, mode="off")
    rules = {
        "pair": ("ratio <= 1.05", lambda added, ratio: ratio <= 1.05),
        "asyn": ("<= 500 ns added", lambda added, ratio: added <= 500),
        "laun": ("not hooked, ratio <= 1.01", lambda added, ratio: ratio <= 1.01),
    }
    for name, direct, found in re.findall(r"compare (\S+) direct_ns ([\d.]+) found_ns ([\d.]+)", box.run(WORKLOAD, "bench")):
        added, ratio = float(found) - float(direct), float(found) / float(direct)
        expected, holds = rules[name[:4]]
        row(f"(d) {name}, medians of 61 blocks", expected, f"{direct} ns direct, {found} ns with the library: ratio {ratio:.4f}, {added:+.0f} ns", holds(added, ratio))
    training_steps(box, off)
    where = [run(WORKLOAD, "where").split() for run in (box.run, off.run)]
    row("(e) mode off: addresses of functions", "all in libcuda", f"off: {sorted(set(where[1]) - {'where'})}; enforce: {sorted(set(where[0]) - {'where'})}", not any("guard" in word for word in where[1]) and any("guard" in word for word in where[0]))
    seen = [numbers(run(WORKLOAD, "info"), "total_mib") for run in (plain, off.run)]
    row("(e) mode off shows the physical card", str(seen[0]), str(seen[1]), seen[0] == seen[1])


def training_steps(box, off):
    """Three processes, without the library, in enforce and in off, take turns on one GPU, a block of steps at a time, in
    another order every round; each block is compared with the block without the library of the same round. Processes
    differ by chance (addresses, cores), so all of this is repeated with new ones."""
    sets, rounds = 8, 16
    ratios = {"enforce": [], "off": []}
    without_ms = []
    command = ("python3", f"{HERE}/torch_train.py")
    for _ in range(sets):
        plain_process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ways = {"without": plain_process, "enforce": box.start(*command), "off": off.start(*command)}
        for way, process in ways.items():
            wait_for(process, "ready")
        pairs = {way: [] for way in ratios}
        for turn in range(rounds):
            names = list(ways)
            order = names[turn % 3:] + names[:turn % 3]
            took = {way: block(ways[way]) for way in (order if turn % 2 else order[::-1])}
            without_ms.append(took["without"])
            for way in pairs:
                pairs[way].append(took[way] / took["without"])
        for process in ways.values():
            process.communicate()
        for way in pairs:
            ratios[way].append(statistics.median(pairs[way]))
    for way, label in (("enforce", "(d) PyTorch training step"), ("off", "(e) PyTorch training step, mode off")):
        found = sorted(ratios[way])
        ratio = statistics.median(found)
        row(f"{label}, {sets} sets of processes, {rounds} pairs of blocks each", "median ratio <= 1.01", f"{statistics.median(without_ms):.3f} ms without; ratio {ratio:.4f}, sets {found[0]:.4f} to {found[-1]:.4f}", len(found) == sets and ratio <= 1.01)


def wait_for(process, word):
    for line in process.stdout:
        if line.startswith(word):
            return line
    raise RuntimeError(f"training ended before it was {word}")


def block(process):
    process.stdin.write("go\n")
    process.stdin.flush()
    return statistics.median(float(value) for value in wait_for(process, "step_ms").split()[1:])


def escapes():
    limit = ["fill", "linear", "64"]
    library = plain("sh", "-c", "ldconfig -p | awk '/libcuda.so.1/{print $NF; exit}'").strip()
    library = library or "/usr/local/nvidia/lib64/libcuda.so.1"
    paths = os.environ.get("LD_LIBRARY_PATH", "")
    attempts = {
        "empty LD_PRELOAD": (["env", "LD_PRELOAD=", WORKLOAD, *limit], {}),
        "clean environment of a child": (["env", "-i", f"LD_LIBRARY_PATH={paths}", WORKLOAD, *limit], {}),
        "dlopen by absolute path": ([WORKLOAD, *limit], {"WORKLOAD_RESOLVE": "path", "WORKLOAD_LIBCUDA": library}),
        "dlsym in the global scope": ([WORKLOAD, *limit], {"WORKLOAD_RESOLVE": "global"}),
        "cuGetProcAddress": ([WORKLOAD, *limit], {"WORKLOAD_RESOLVE": "procaddress"}),
        "linked with libcuda": ([WORKLOAD + "-linked", *limit], {}),
        "limit of its own in the environment": ([WORKLOAD, *limit], {"KAI_GUARD_LIMIT": "0", "CUDA_DEVICE_MEMORY_LIMIT": "100g"}),
    }
    for name, (command, variables) in attempts.items():
        text = Container(2 * GIB).run(*command, **variables)
        own = numbers(text, "own_mib")
        row(f"(f) escape: {name}", "stopped at 2048 MiB", f"NVML {max(own) if own else text[-200:]} MiB", bool(own) and max(own) <= 2048 and "code 2" in text)
    box = Container(4 * GIB)
    holder = box.start(WORKLOAD, "hold", "3000")
    holder.stdout.readline()
    region = f"{box.root}/usage/region"
    subprocess.run(["dd", "if=/dev/zero", f"of={region}", "bs=4096", "count=28", "conv=notrunc"], capture_output=True)
    text = box.run(WORKLOAD, *limit)
    own = numbers(text, "own_mib")
    holder.communicate("")
    good = bool(own) and "code 2" in text and 4096 - 3000 < max(own) <= 4096
    row("(f) escape: overwriting the region with zeros", "not enforceable: hides what other processes hold, and no more", f"a process gets {max(own) if own else text[-200:]} MiB of 4096 beside 3000 MiB hidden", good)
    text = Container(2 * GIB).run("sh", "-c", f"cp {LIBRARY} /tmp/none; umount /etc/ld.so.preload; {WORKLOAD} fill linear 1024 | head -4")
    own = numbers(text, "own_mib")
    row("(f) escape: root with CAP_SYS_ADMIN unmounts the preload", "not enforceable: above 2048 MiB", f"NVML {max(own) if own else text[-200:]} MiB", bool(own) and max(own) > 2048)


def observed():
    """What a reservation pod sees that observes processes."""
    if len(sys.argv) < 4:
        return
    box = Container(4 * GIB)
    command = [WORKLOAD, "hold", "1000"]
    guarded, direct = box.start(*command), subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for holder in (guarded, direct):
        holder.stdout.readline()
    text = plain(os.path.abspath(sys.argv[3]), "agent", "reserve", "--print", "--observe-processes")
    for what, holder, state in [("with", guarded, "enforcing"), ("without", direct, "absent")]:
        seen = re.findall(rf"process {holder.pid}  (\d+) MiB  pod \S+  library (\w+)", text)
        good = len(seen) == 1 and int(seen[0][0]) >= 1000 and seen[0][1] == state
        row(f"observed: a process {what} the library", f"at least 1000 MiB, {state}", str(seen or text[-200:]), good)
        holder.communicate("")


def main():
    global UUID
    UUID = smi("uuid")
    library = os.environ.get("CUDA_STUBS", "/usr/local/nvidia/lib64/libcuda.so.1")
    flags = ["-O1", "-pthread"]
    subprocess.run(["cc", *flags, "-o", WORKLOAD, f"{HERE}/workload.c", "-ldl"], check=True)
    subprocess.run(["cc", *flags, "-DLINKED", "-o", WORKLOAD + "-linked", f"{HERE}/workload.c", "-ldl", library], check=True)
    os.makedirs("/kai-guard", exist_ok=True)
    is_new = not os.path.exists("/etc/ld.so.preload")
    open("/etc/ld.so.preload", "a").close()
    try:
        for part in (driver_reserve, limits_and_families, processes, side_by_side, burst, observed, costs, escapes):
            try:
                part()
            except Exception as error:  # a part that breaks is a failed row, not a lost report
                row(f"{part.__name__}", "ends", repr(error)[:200], False)
            write_report()
    finally:
        if is_new:
            os.remove("/etc/ld.so.preload")
    sys.exit(any(good != "yes" for *_, good in rows))


def write_report():
    with open(REPORT, "w") as file:
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        file.write(f"{smi('name')}, driver {smi('driver_version')}, {date}\n\n")
        file.write("| what | expected | measured | holds |\n|---|---|---|---|\n")
        for cells in rows:
            file.write("| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in cells) + " |\n")


main()
