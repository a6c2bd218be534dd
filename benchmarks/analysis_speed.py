"""How fast a trace is imported and analysed, next to HolisticTraceAnalysis on the same file.

    python benchmarks/analysis_speed.py --hta-python VENV/bin/python [--repeat 4] [--runs 3]
                                        [--agreement tests/data/traces/hta.json]

HolisticTraceAnalysis (PyPI) lives in an environment of its own. The trace is
tests/data/traces/ns_resolution_rank0.json.gz, `--repeat` times one after the other, not packed.
Both run in processes of their own, by turns: syncscope from the trace to summary.json, HTA from
the trace to its temporal breakdown. Time counts from after the imports, wall and CPU; memory is
the peak of the process as /proc has it (getrusage counts what the parent held before exec as
well). Medians are reported. `--agreement` writes what HTA says of the other
traces, which tests/integration/test_against_hta.py compares with.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TRACES = Path(__file__).resolve().parents[1] / "tests" / "data" / "traces"
TRACE = TRACES / "ns_resolution_rank0.json.gz"

MEASURED = """
import json, sys, time
{imports}
def peak_mb():
    with open("/proc/self/status") as file:
        return int(file.read().partition("VmHWM:")[2].split()[0]) * 1.024e-3
wall, cpu = time.perf_counter(), time.process_time()
{work}
print(json.dumps({{
    "wall_s": time.perf_counter() - wall,
    "cpu_s": time.process_time() - cpu,
    "peak_mb": peak_mb(),
}}))
"""

OURS = MEASURED.format(
    imports="from pathlib import Path\nimport tempfile, pyarrow, syncscope\n"
    "from syncscope.analysis.pipeline import analyze\n"
    "from syncscope.recording.reader import Recording\n"
    "from syncscope.recording.trace_import import import_trace\n"
    "from syncscope.reports.json_report import summary_json\n"
    "pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # as the command does",
    work="with tempfile.TemporaryDirectory() as folder:\n"
    "    run = Path(folder) / 'run'\n"
    "    import_trace(Path(sys.argv[1]), run)\n"
    "    (run / 'summary.json').write_bytes(summary_json(analyze(Recording(run)).summary))",
)

HTA = MEASURED.format(
    imports="from hta.trace_analysis import TraceAnalysis",
    work="trace = TraceAnalysis({0: sys.argv[1]}, include_last_profiler_step=True)\n"
    "trace.get_temporal_breakdown(visualize=False)",
)

AGREEMENT = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
trace = TraceAnalysis({0: sys.argv[1]}, include_last_profiler_step=True)
rows, names = trace.t.get_trace(0), trace.t.symbol_table.sym_table
kinds = rows["cat"].map(lambda code: names[code])
trace.t.traces[0] = rows[kinds != "cuda_sync"]
counts = kinds[rows["stream"] >= 0].value_counts()
took = trace.get_temporal_breakdown(visualize=False).iloc[0]
print(json.dumps({
    "busy_us": took["kernel_time(us)"] - took["idle_time(us)"],
    "idle_us": took["idle_time(us)"],
    **{kind: int(counts.get(kind, 0)) for kind in ("kernel", "gpu_memcpy", "gpu_memset")},
}))
"""


def repeated(trace: Path, times: int, target: Path) -> int:
    """Write a trace several times one after the other; returns how many events it has."""
    whole = json.loads(gzip.decompress(trace.read_bytes()))
    events = [event for event in whole["traceEvents"] if "dur" in event]
    others = [event for event in whole["traceEvents"] if "dur" not in event]
    length = max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events) + 1000
    for number in range(times):
        others += [_later(event, number * length, number * 10_000_000) for event in events]
    target.write_text(json.dumps({**whole, "traceEvents": others}))
    return len(others)


def _later(event: dict[str, Any], shift_us: float, shift_id: int) -> dict[str, Any]:
    moved = {**event, "ts": round(event["ts"] + shift_us, 3)}
    correlation = event.get("args", {}).get("correlation", -1)
    if correlation > 0:
        moved["args"] = {**event["args"], "correlation": correlation + shift_id}
    return moved


def run(python: str, code: str, trace: Path) -> dict[str, float]:
    """Run code in a process of its own; the JSON object of its last line."""
    command = [python, "-c", code, str(trace)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def agreement(python: str) -> dict[str, dict[str, float]]:
    """By trace HTA's busy and idle time and counts, without its rows of host waits."""
    found = {}
    for trace in sorted(TRACES.glob("*.json.gz")):
        try:
            found[trace.name] = run(python, AGREEMENT, trace)
        except subprocess.CalledProcessError:
            print(f"HTA cannot break down {trace.name}", file=sys.stderr)
    return found


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hta-python", required=True, help="of an environment with HTA")
    parser.add_argument("--repeat", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--agreement", type=Path, help="write HTA's figures to this file")
    args = parser.parse_args()
    if args.agreement:
        args.agreement.write_text(json.dumps(agreement(args.hta_python), indent=1) + "\n")
    sides = {"syncscope": (sys.executable, OURS), "hta": (args.hta_python, HTA)}
    results: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        report: dict[str, Any] = {"events": repeated(TRACE, args.repeat, trace)}
        for _ in range(args.runs):
            for side, (python, code) in sides.items():
                results[side].append(run(python, code, trace))
    for side, rounds in results.items():
        report[side] = {
            key: round(statistics.median(each[key] for each in rounds), 2) for key in rounds[0]
        }
    report["hta_to_syncscope"] = {
        key: round(report["hta"][key] / report["syncscope"][key], 2) for key in report["hta"]
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
