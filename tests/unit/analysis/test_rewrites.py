"""Rewrites of programs: what is written instead, and where nothing is.

`<<` and `>>` stand around the expression of the site. That a rewritten program computes the
same is tested on the shadow GPU, in tests/integration/test_advice.py.
"""

from __future__ import annotations

import ast
import textwrap
from dataclasses import replace
from typing import Any

import pytest

from syncscope.analysis.causes import diagnose
from syncscope.analysis.findings import Finding
from syncscope.analysis.origins import origin_of
from syncscope.analysis.sites import Group
from syncscope.analysis.stacks import UNKNOWN_FRAME, Frame, Place
from syncscope.analysis.syntax import Sources
from syncscope.records import Advice

UPLOAD = {"kind": "transfer", "direction": "h2d", "memory": "pageable"}
PINNED = UPLOAD | {"memory": "pinned"}
COPY = {"kind": "transfer", "direction": "d2h", "size_bytes": 4096}
READ = {"op": "Tensor.item"}
LONG = READ | {"size_bytes": 8}
NORMAL = ("torch/distributions/distribution.py", "Distribution.__init__")
MODULE = ("torch/nn/modules/module.py", "Module.to")
CLIP = ("torch/nn/utils/clip_grad.py", "clip_grad_norm_")


def found(program: str, inner: tuple[str, str] | None = None, **known: Any) -> Finding:
    """The finding of a marked program."""
    head, rest = textwrap.dedent(program).strip().split("<<")
    expression, tail = rest.split(">>")
    line, column = head.count("\n") + 1, len(head) - head.rfind("\n")
    end_line = line + expression.count("\n")
    start = 1 if "\n" in expression else column
    end_column = start + len(expression.rpartition("\n")[2])
    frame = Frame(0, "a.py", "f", line, end_line, column, end_column, expression, "user")
    below = (Frame(1, *inner, 7, 7, -1, -1, "", "torch"),) if inner else ()
    place = Place(frame, below, (*below, frame), "torch" if inner else "user")
    group = Group(
        id="0", place=place, origin=Place(UNKNOWN_FRAME, (), (), "torch"), kind="sync",
        direction="d2h", explicit=False, op="", hook_cause="", memory="pageable",
        non_blocking=False, blocking=True, sampled=False, count=1, size_bytes=4,
        blocked_ns=30_000, flagged=True,
    )  # fmt: skip
    sources = Sources({"a.py": f"{head}{expression}{tail}\n"})
    return Finding(replace(group, **known), sources.expression(frame))


def advice(program: str, **known: Any) -> Advice:
    return diagnose(found(program, **known))[1]


REWRITES = [
    ('a = <<torch.randn(64, 64).to("cuda")>>', UPLOAD, 'a = torch.randn(64, 64, device="cuda")'),
    ("a = <<torch.arange(n).to(device=device)>>", UPLOAD, "a = torch.arange(n, device=device)"),
    ("a = <<torch.zeros(n, 4).to(x.device, non_blocking=True)>>", UPLOAD,
     "a = torch.zeros(n, 4, device=x.device)"),
    ("a = <<torch.ones(3).cuda()>>", UPLOAD, 'a = torch.ones(3, device="cuda")'),
    ("a = <<torch.ones(3).to(device, torch.half)>>", UPLOAD,
     "a = torch.ones(3, dtype=torch.half, device=device)"),
    ("a = <<torch.ones(\n    3,  # rows\n).to(device)>>", UPLOAD, ""),
    ("a = <<torch.ones(3, 3).tril()[None].to(device)>>", UPLOAD,
     "a = torch.ones(3, 3, device=device).tril()[None]"),
    ("d = torch.device('cuda')\na = <<torch.ones(3).to(d)>>", UPLOAD,
     "a = torch.ones(3, device=d)"),
    ("b = torch.ones(2).cuda()\na = <<torch.ones(3).to(b)>>", UPLOAD,
     "a = torch.ones(3, dtype=b.dtype, device=b.device)"),
    ("b = torch.ones(2)\nif c:\n    b = 3\na = <<torch.ones(3).to(b)>>", UPLOAD, ""),
    ("m = torch.zeros(3)\na = <<m.to(device)>>", UPLOAD,
     "# line 1:\nm = torch.zeros(3, device=device)\n# line 2:\na = m"),
    ("m = torch.zeros(3)\nprint(m)\na = <<m.to(device)>>", UPLOAD, ""),
    ("m = torch.zeros(3)\nfor i in r:\n    a = <<m.to(device)>>", UPLOAD, ""),
    ("m = torch.zeros(3)\ndevice = pick()\na = <<m.to(device)>>", UPLOAD, ""),
    ("a = <<torch.rand(3, generator=g).to(device)>>", UPLOAD, ""),
    ("a = <<torch.ones(3, requires_grad=True).to(device)>>", UPLOAD, ""),
    ("a = <<torch.from_numpy(x).to(device)>>", UPLOAD, ""),
    ("a = <<torch.ones(3).expand(2, 3).to(device)>>", UPLOAD, ""),
    ("a = <<torch.ones(3).to(other)>>", UPLOAD, ""),
    ("print(f'{<<torch.ones(3).to(device)>>}')", UPLOAD, ""),
    ("a = <<torch.tensor([-1], device=device)>>", UPLOAD,
     "a = torch.full((1,), -1, device=device)"),
    ("a = <<torch.tensor([1, 2, 3], device=device)>>", UPLOAD,
     "a = torch.arange(1, 4, device=device)"),
    ("a = <<torch.tensor([1, 1.0], device=device)>>", UPLOAD,
     "a = torch.tensor([1, 1.0], pin_memory=True).to(device, non_blocking=True)"),
    ("a = <<torch.tensor(values, dtype=torch.half, device=device)>>", UPLOAD,
     "a = torch.tensor(values, dtype=torch.half, pin_memory=True).to(device, non_blocking=True)"),
    ("for i, x in enumerate(xs):\n    a = <<torch.tensor(i, device=device)>>", UPLOAD,
     "a = torch.full((), i, device=device)"),
    ("a = <<torch.tensor(x, device=device, requires_grad=True)>>", UPLOAD, ""),
    ("a = <<x[:, [0, 2, 4]]>>", UPLOAD, "a = x[:, torch.arange(0, 5, 2, device=x.device)]"),
    ("a = <<x[[0, 2]]>>", UPLOAD,
     "a = x[torch.tensor([0, 2], pin_memory=True).to(x.device, non_blocking=True)]"),
    ("a = <<x[[True, False]]>>", UPLOAD, ""),
    ("a = <<f(x)[[0, 2]]>>", UPLOAD, ""),
    ("def f(ids):\n    return <<x[ids]>>", UPLOAD, ""),
    ("<<buf[5]>> = 0.0", UPLOAD, "buf[5].fill_(0.0)"),
    ("<<buf[idx]>> = -1", UPLOAD, "buf[idx] = buf.new_full((), -1)"),
    ("<<buf[idx]>> = value", UPLOAD, ""),
    ("d = <<staging.to(device)>>", PINNED, "d = staging.to(device, non_blocking=True)"),
    ("d = <<staging.to(device)>>\nstaging.fill_(1)", PINNED, ""),
    ("for i in r:\n    staging.copy_(x[i])\n    d = <<staging.to(device)>>", PINNED, ""),
    ("<<model.to(device)>>", UPLOAD | {"inner": MODULE}, ""),
    ("y = <<x.to(device)>>", UPLOAD, ""),
    ("y = <<x.to(device, **options)>>", PINNED, ""),
    ("for x in DataLoader(d, 4):\n    y = <<x.to(device)>>", UPLOAD,
     "# line 1:\nfor x in DataLoader(d, 4, pin_memory=True):\n    # line 2:\n"
     "    y = x.to(device, non_blocking=True)"),
    ("for x in DataLoader(d, 4, pin_memory=p):\n    y = <<x.to(device)>>", UPLOAD, ""),
    ("for x in DataLoader(d, 4):\n    y = <<x.float().to(device)>>", UPLOAD, ""),
    ("for x in DataLoader(d, 4):\n    y = <<x.to(device)>>\n    x.zero_()", UPLOAD, ""),
    ("total = 0.0\nfor x in xs:\n    total += <<x.item()>>", READ, ""),
    ("import torch\ntotal = 0.0\nfor x in xs:\n    total += <<x.item()>>", READ,
     "    # line 4:\n    total += x.detach().double()\n"
     "# after the loop (line 4 is its last line):\ntotal = float(total)"),
    ("import torch\ntotal = 0\nfor x in xs:\n    total += <<x.item()>>", LONG,
     "    # line 4:\n    total += x.detach()\n"
     "# after the loop (line 4 is its last line):\n"
     "total = torch.as_tensor(total).item()"),
    ("import torch\ntotal = 0\nfor x in xs:\n    total += <<x.item()>>\n    f(total)", READ, ""),
    ("import torch\ntotal = start()\nfor x in xs:\n    total += <<x.item()>>", READ, ""),
    ("import torch\nlog = []\nfor x in xs:\n    log.append(<<x.item()>>)", READ,
     "    # line 4:\n    log.append(x.detach())\n"
     "# after the loop (line 4 is its last line):\n"
     "log = torch.stack(log).flatten().tolist() if log else []"),
    ("import torch\nlog = []\nfor x in xs:\n    log.append(<<x.item()>>)\n    x.add_(1)", READ, ""),
    ("import torch\nlog = []\nfor x in xs:\n    log.append(<<x.item()>>)\n    f(log)", READ, ""),
    ("import torch\nv = <<x.item()>>\nif i % 9 == 0:\n    print(v)", READ,
     "# line 2:\nv = x.detach()\n    # before line 4:\n    v = v.item()"),
    ("import torch\nv = <<x.item()>>\nif v > 9:\n    print(v)", READ, ""),
    ("for n in lens:\n    y = <<x[:n]>>", LONG, ""),
    ("lens = torch.ones(3)\nfor n in lens:\n    y = <<x[:n]>>", LONG,
     "# line 2:\nfor n in lens.flatten().tolist():"),
    ("lens = torch.ones(3)\nfor n in lens:\n    y = <<int(n)>>\n    n.add_(1)", LONG, ""),
    ("assert <<ok.all()>>, 'bad'", {}, "torch._assert_async(ok.all(), 'bad')"),
    ("assert <<ok.all()>>, why()", {}, ""),
    ("assert <<ok.all()>> and n", {}, ""),
    ("x = torch.ones(3)\nn = x.norm()\nif <<n > 1>>:\n    x = x / n", {},
     "# lines 3-4:\nx = x / torch.where(n > 1, n, 1.0)"),
    ("x = 3\nn = y.norm()\nif <<n > 1>>:\n    x = x / n", {}, ""),
    ("x = torch.ones(3)\nn = y.norm()\nif <<n > 1>>:\n    x = x / n\n    f()", {}, ""),
    ("x = torch.ones(3)\nn = y.norm()\nif <<n > 1>>:\n    x = x / n\nelse:\n    f()", {}, ""),
    ("m = x > 0\ns = <<x[m]>>.sum()", {}, "s = torch.where(m, x, 0).sum()"),
    ("m = x > 0\ns = 2 * <<x[m]>>.mean()", {}, "s = 2 * (torch.where(m, x, 0).sum() / m.sum())"),
    ("m = y > 0\ns = <<x[m]>>.sum()", {}, ""),
    ("m = x[:, 0] > 0\ns = <<x[m]>>.sum()", {}, ""),
    ("def f(x):\n    m = x > 0\n    x = g()\n    s = <<x[m]>>.sum()", {}, ""),
    ("m = self.x > 0\nself.x = g()\ns = <<self.x[m]>>.sum()", {}, ""),
    ("m = x > 0\nx[m] = <<y[m]>>", {}, ""),
    ("c = <<torch.linalg.cholesky(a)>>", {}, "c = torch.linalg.cholesky_ex(a).L"),
    ("c = <<torch.linalg.solve(a, b)>>", {}, "c = torch.linalg.solve_ex(a, b).result"),
    ("c = <<torch.linalg.svd(a)>>", {}, ""),
    ("d = <<Normal(mu, sd)>>", {"inner": NORMAL}, "d = Normal(mu, sd, validate_args=False)"),
    ("d = Normal(mu, sd)\nlp = <<d.log_prob(mu)>>", {"inner": NORMAL},
     "# line 1:\nd = Normal(mu, sd, validate_args=False)"),
    ("lp = <<d.log_prob(mu)>>", {"inner": NORMAL}, ""),
    ("<<clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)>>", {"inner": CLIP},
     "clip_grad_norm_(ps, 1.0, error_if_nonfinite=False)"),
    ("n = [1, 2]\nr = torch.tensor(n, device='cuda')\na = <<x.repeat_interleave(r)>>", {},
     "a = x.repeat_interleave(r, output_size=sum(n))"),
    ("n = [1, 2]\nn.append(3)\nr = torch.tensor(n)\na = <<x.repeat_interleave(r)>>", {}, ""),
    ("rows = []\nfor x in xs:\n    rows.append(<<x.cpu()>>)", COPY,
     '    # line 3:\n    rows.append(x.to("cpu", non_blocking=True))\n'
     "# after the loop (line 3 is its last line):\n"
     "copied = torch.cuda.Event()\ncopied.record()\ncopied.synchronize()"),
    ("rows = []\nfor x in xs:\n    rows.append(<<x.cpu()>>)\n    use(rows)", COPY, ""),
]  # fmt: skip


@pytest.mark.parametrize(("program", "known", "rewrite"), REWRITES, ids=[r[0] for r in REWRITES])
def test_a_rewrite_is_exact_or_none(program: str, known: dict[str, Any], rewrite: str) -> None:
    given = advice(program, **known)
    assert given.rewrite == rewrite
    assert bool(given.edits) == bool(rewrite)
    for edit in given.edits:
        ast.parse(edit.code.strip())


SNIPPETS = [
    ("if a:\n    pass\nelif <<x[[0, 2, 4]]>>.any():  # odd: [1:2]\n    f()", UPLOAD,
     "elif x[torch.arange(0, 5, 2, device=x.device)].any():"),
    ("try:\n    f()\nexcept E:\n    a = g(\n        <<torch.ones(3).cuda()>>,\n        b,\n    )",
     UPLOAD, '# lines 4-7:\na = g(\n    torch.ones(3, device="cuda"),\n    b,\n)'),
    ("import torch\nn = 0.0\nfor x in xs:\n    if x:\n        n += <<x.item()>>  # read", READ,
     "        # line 5:\n        n += x.detach().double()\n"
     "# after the loop (line 5 is its last line):\nn = float(n)"),
    ("if a: b = <<torch.ones(3).cuda()>>; c = 4", UPLOAD, 'b = torch.ones(3, device="cuda")'),
    ("@<<f(torch.ones(3).cuda())>>\ndef g(): pass", UPLOAD, ""),
    ("def f(xs, d):\n    for i in range(3):\n        for j in range(3):\n"
     "            y = <<xs[j].to(d)>>\n        g(i)", UPLOAD,
     "# before the loop (line 2):\nxs = xs.pin_memory()\n"
     "        # line 4:\n        y = xs[j].to(d, non_blocking=True)"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "known", "rewrite"), SNIPPETS, ids=[r[0] for r in SNIPPETS])
def test_a_rewrite_shows_whole_statements(
    program: str, known: dict[str, Any], rewrite: str
) -> None:
    assert advice(program, **known).rewrite == rewrite


@pytest.mark.parametrize(
    ("program", "pins"),
    [
        ("a = <<torch.tensor(values, device=device)>>", True),
        ("def f(xs, d):\n    for i in range(3):\n        y = <<xs[i].to(d)>>", True),
        ("for x in DataLoader(d, 4):\n    y = <<x.to(device)>>", False),
        ("a = <<torch.ones(3).cuda()>>", False),
    ],
)
def test_what_fails_without_a_gpu_says_so(program: str, pins: bool) -> None:
    assert ("Pinning needs a GPU" in advice(program, **UPLOAD).text) == pins


def test_edits_say_where_and_what() -> None:
    first, second = advice("m = torch.zeros(3)\na = <<m.to(device)>>", **UPLOAD).edits
    assert (first.file, first.line, first.column, first.end_column) == ("a.py", 2, 5, 17)
    assert (second.line, second.column, second.end_column) == (1, 5, 19)


def test_columns_count_characters() -> None:
    (edit,) = advice('é = "ü"; a = <<torch.ones(3).cuda()>>', **UPLOAD).edits
    assert (edit.column, edit.end_column) == (14, 34)


def test_without_the_source_an_expression_can_still_be_rewritten() -> None:
    frame = Frame(0, "a.py", "f", 9, 9, 5, 25, "torch.ones(3).cuda()", "user")
    known = found("<<x>>", **UPLOAD).group
    group = replace(known, place=Place(frame, (), (frame,), "user"))
    given = diagnose(Finding(group, Sources({}).expression(frame)))[1]
    assert given.rewrite == 'torch.ones(3, device="cuda")'
    assert (given.edits[0].line, given.edits[0].column) == (9, 5)


@pytest.mark.parametrize(
    ("program", "line", "expression"),
    [
        ("a = <<torch.rand(3).to(device)>>", 1, "torch.rand(3)"),
        ("m = torch.rand(3)\nf(m)\na = <<m.to(device)>>", 1, "torch.rand(3)"),
    ],
)
def test_both_lines_are_named_where_the_host_made_what_is_moved(
    program: str, line: int, expression: str
) -> None:
    finding = found(program, **UPLOAD | {"size_bytes": 12, "count": 2, "blocked_ns": 80_000})
    origin = origin_of(finding)
    assert origin is not None
    assert (origin.file, origin.line, origin.expression) == ("a.py", line, expression)
    cause, given = diagnose(finding)
    assert cause == "created_on_host"
    assert ": 6 B, for which the host waits 40 µs, each time" in given.text
    assert "GPU's generator" in given.text
    assert ("a.py:1, `torch.rand(3)`" in given.text) == (line != finding.place.frame.line)


def test_what_is_bound_twice_has_no_known_origin() -> None:
    program = "m = torch.rand(3)\nif c:\n    m = load()\na = <<m.to(device)>>"
    assert origin_of(found(program, **UPLOAD)) is None
