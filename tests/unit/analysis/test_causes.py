"""The cause of each kind of line, from what a real GPU's recording knows of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from syncscope.analysis.advice.rule import MAX_TITLE, Rule
from syncscope.analysis.causes import CAUSES, RULES, diagnose
from syncscope.analysis.findings import Finding
from syncscope.analysis.sites import Group
from syncscope.analysis.stacks import UNKNOWN_FRAME, Frame, Place
from syncscope.analysis.syntax import Sources
from syncscope.records import Advice

PLAIN = Group(
    id="0", place=Place(Frame(0, "", "", 1, 1, 1, 1, "", "user"), (), (), "user"),
    origin=Place(UNKNOWN_FRAME, (), (), "torch"),
    kind="sync", direction="d2h", explicit=False, op="", hook_cause="", memory="pageable",
    non_blocking=False, blocking=True, sampled=False, count=1, size_bytes=4, blocked_ns=1,
    flagged=True,
)  # fmt: skip
UPLOAD = {"kind": "transfer", "direction": "h2d"}
COPY = {"kind": "transfer", "direction": "d2h", "size_bytes": 4096}
PINNED = UPLOAD | {"memory": "pinned"}


def finding(
    statement: str, expression: str, inner: tuple[tuple[str, str], ...] = (), **known: Any
) -> Finding:
    """The finding for an expression inside a statement, as the recorder positions it."""
    before = statement[: statement.index(expression)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    span = (line, line, column, column + len(expression))
    frame = Frame(0, "case.py", "main", *span, expression, "user")
    below = tuple(
        Frame(n + 1, file, name, 7, 7, -1, -1, "", "torch") for n, (file, name) in enumerate(inner)
    )
    plumbing = ("torch/_tensor.py", "torch/_tensor_str.py", "torch/__init__.py")
    owner = "torch" if any(file not in plumbing for file, _ in inner) else "user"
    place = Place(frame, below, (*below, frame), owner)
    sources = Sources({"case.py": statement + "\n"})
    return Finding(replace(PLAIN, place=place, **known), sources.expression(frame))


def advice(*arguments: Any, **known: Any) -> tuple[str, Advice]:
    return diagnose(finding(*arguments, **known))


CLIP = (("torch/nn/utils/clip_grad.py", "clip_grad_norm_"),)
ADAM = (("torch/optim/adam.py", "_single_tensor_adam"), ("torch/optim/adam.py", "Adam.step"))
SCALER = (("torch/amp/grad_scaler.py", "GradScaler.get_scale"),)
NORMAL = (("torch/distributions/distribution.py", "Distribution.__init__"),)
OBJECT = (("torch/distributed/distributed_c10d.py", "all_gather_object"),)
GRAPH = (("torch/cuda/graphs.py", "graph.__enter__"),)
MASK = (("torch/nn/modules/transformer.py", "_detect_is_causal_mask"),)
PACK = (("torch/nn/utils/rnn.py", "pack_padded_sequence"),)
TENSOR = (("torch/_tensor.py", "Tensor.__format__"),)
PRINT = (("torch/_tensor_str.py", "_tensor_str"),)
CONTAINS = (("torch/_tensor.py", "Tensor.__contains__"),)
ASSERT = (("torch/__init__.py", "_assert"),)

CASES = [
    ("01", "if norm > 1.0: pass", "norm > 1.0", {}, "scalar_readback"),
    ("01", "clip_grad_norm_(ps, 1.0)", "clip_grad_norm_(ps, 1.0)", {"inner": CLIP},
     "library_readback"),
    ("02", "before = scaler.get_scale()", "scaler.get_scale()", {"inner": SCALER},
     "library_readback"),
    ("04", "running += loss.item()", "loss.item()", {"op": "Tensor.item"}, "scalar_readback"),
    ("04", "postfix = f'loss={loss:.3f}'", "f'loss={loss:.3f}'", {"inner": TENSOR},
     "print_format"),
    ("04", "logged = {'acc': float(acc)}", "float(acc)", {}, "scalar_readback"),
    ("04", "postfix = f'{loss.item():.3f}'", "loss.item()", {"op": "Tensor.item"},
     "scalar_readback"),
    ("04", "print(x)", "print(x)", {"inner": PRINT}, "print_format"),
    ("05", "m = torch.tensor(lr, device=device)", "torch.tensor(lr, device=device)", UPLOAD,
     "literal_upload"),
    ("05", "plan = lens.cumsum(0).cpu()", "lens.cumsum(0).cpu()",
     COPY | {"op": "Tensor.cpu"}, "tensor_readback"),
    ("07", "a = x.repeat_interleave(reps, dim=0)", "x.repeat_interleave(reps, dim=0)", {},
     "data_dependent_size"),
    ("08", "kept = pred[keep]", "pred[keep]", {}, "mask_read"),
    ("08", "conf = torch.masked_select(p, keep)", "torch.masked_select(p, keep)", {}, "mask_read"),
    ("09", "x[m] = src[0, 0]", "x[m]", {}, "mask_read"),
    ("11", "buf[idx] = 0.0", "buf[idx]", UPLOAD, "host_scalar_assign"),
    ("12", "a = qpos[:, ids]", "qpos[:, ids]", UPLOAD | {"size_bytes": 24}, "host_index"),
    ("14", "i = (sched == t).nonzero().item()", "(sched == t).nonzero()", {},
     "data_dependent_size"),
    ("14", "i = (sched == t).nonzero().item()", "(sched == t).nonzero().item()",
     {"op": "Tensor.item"}, "scalar_readback"),
    ("14", "j = torch.where(sched == t)[0]", "torch.where(sched == t)", {}, "data_dependent_size"),
    ("14", "k = torch.argwhere(sched == t)", "torch.argwhere(sched == t)", {},
     "data_dependent_size"),
    ("15", "a = alphas[t]", "alphas[t]", {"size_bytes": 8}, "scalar_readback"),
    ("15", "x = x * a.view(1).to(device)", "a.view(1).to(device)", UPLOAD, "pageable_batch"),
    ("16", "if (mean == 0).any(): pass", "(mean == 0).any()", {}, "scalar_readback"),
    ("17", "a = torch.rand(n, 64).to(device)", "torch.rand(n, 64).to(device)", UPLOAD,
     "created_on_host"),
    ("19", "n = int(batch.max()) + 1", "int(batch.max())", {}, "scalar_readback"),
    ("19", "oh = F.one_hot(batch)", "F.one_hot(batch)", {}, "data_dependent_size"),
    ("19", "s = torch.zeros(b.max() + 1, 8, device=d)", "torch.zeros(b.max() + 1, 8, device=d)",
     {}, "data_dependent_size"),
    ("21", "if hit.any(): pass", "hit.any()", {}, "scalar_readback"),
    ("21", "unused = counts.to('cpu')", "counts.to('cpu')", COPY | {"op": "Tensor.to"},
     "tensor_readback"),
    ("23", "d = Normal(mu, sd)", "Normal(mu, sd)", {"inner": NORMAL}, "distribution_validation"),
    ("24", "inv = torch.linalg.inv(spd)", "torch.linalg.inv(spd)", {}, "linalg_info"),
    ("25", "p = pack_padded_sequence(x, n)", "pack_padded_sequence(x, n)",
     UPLOAD | {"inner": PACK}, "library_readback"),
    ("27", "parts.append(x[pos:pos + n])", "x[pos:pos + n]", {"size_bytes": 8}, "scalar_readback"),
    ("28", "ind[1] = labels", "ind[1]", COPY, "tensor_readback"),
    ("30", "opt.step()", "opt.step()", {"inner": ADAM}, "library_readback"),
    ("32", "a = enc(x, mask=mask)", "enc(x, mask=mask)", {"inner": MASK}, "library_readback"),
    ("34", "saw_eos = eos in nxt", "eos in nxt", {"inner": CONTAINS}, "scalar_readback"),
    ("35", "assert ok.all(), 'bad'", "ok.all()", {}, "scalar_readback"),
    ("35", "torch._assert(x.min() > 0, 'n')", "torch._assert(x.min() > 0, 'n')",
     {"inner": ASSERT}, "scalar_readback"),
    ("39", "y = x.to(device)", "x.to(device)", UPLOAD, "pageable_batch"),
    ("39", "y = x.to(device, non_blocking=True)", "x.to(device, non_blocking=True)",
     UPLOAD | {"non_blocking": True, "blocking": False}, "pageable_batch"),
    ("40", "d = staging.to(device)", "staging.to(device)", PINNED, "missing_non_blocking"),
    ("40", "b = staging.to(device, non_blocking=True)", "staging.to(device, non_blocking=True)",
     PINNED | {"non_blocking": True, "blocking": False}, "asynchronous_copy"),
    ("41", "y = x.to('cpu', non_blocking=True)", "x.to('cpu', non_blocking=True)",
     COPY | {"memory": "pinned", "blocking": False}, "asynchronous_copy"),
    ("41", "total = y.sum()", "y.sum()", {"kind": "race"}, "unsafe_readback"),
    ("45", "t = torch.empty(n, device=d)", "torch.empty(n, device=d)",
     {"kind": "allocator", "direction": ""}, "allocator_churn"),
    ("46", "torch.cuda.synchronize()", "torch.cuda.synchronize()",
     {"explicit": True, "direction": "", "hook_cause": "explicit_wait"}, "explicit_wait"),
    ("47", "with torch.cuda.graph(g): pass", "torch.cuda.graph(g)",
     {"explicit": True, "inner": GRAPH, "hook_cause": "explicit_wait"}, "graph_capture"),
    ("49", "dist.all_gather_object(objs, {})", "dist.all_gather_object(objs, {})",
     UPLOAD | {"inner": OBJECT}, "object_collective"),
    ("50", "s = torch.sparse_coo_tensor(i, v)", "torch.sparse_coo_tensor(i, v)", {},
     "data_dependent_size"),
    ("--", "y = f(x)", "f(x)", {"direction": ""}, "generic"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "statement", "expression", "known", "cause"), CASES, ids=[c[0] + c[2] for c in CASES]
)
def test_each_labelled_line_has_its_cause(
    case: str, statement: str, expression: str, known: dict[str, Any], cause: str
) -> None:
    found, text = advice(statement, expression, **known)
    assert found == cause
    assert text.title
    assert text.text


def test_a_cause_that_a_hook_names_needs_no_evidence() -> None:
    assert advice("y = f(x)", "f(x)", hook_cause="linalg_info")[0] == "linalg_info"


def test_who_called_an_operator_says_more_than_the_operator() -> None:
    told = {"hook_cause": "scalar_readback", "op": "aten::_local_scalar_dense"}
    assert advice("opt.step()", "opt.step()", ADAM, **told)[0] == "library_readback"
    assert advice("d = Normal(mu, sd)", "Normal(mu, sd)", NORMAL, **told)[0] == (
        "distribution_validation"
    )
    assert advice("oh = F.one_hot(b)", "F.one_hot(b)", **told)[0] == "data_dependent_size"
    assert advice("a = table[t]", "table[t]", **told)[0] == "scalar_readback"


def test_a_pinned_source_was_not_made_on_the_host_by_mistake() -> None:
    known = PINNED | {"hook_cause": "created_on_host", "op": "Tensor.to"}
    assert advice("d = staging.to(d)", "staging.to(d)", **known)[0] == "missing_non_blocking"


@pytest.mark.parametrize(
    ("function", "cause"), [("main", "created_on_host"), ("make_data", "pageable_batch")]
)
def test_data_that_another_function_made_is_a_batch(function: str, cause: str) -> None:
    frame = Frame(1, "case.py", function, 2, 2, -1, -1, "torch.rand(9)", "user")
    origin = Place(frame, (), (frame,), "user")
    known = UPLOAD | {"hook_cause": "created_on_host", "op": "Tensor.to", "origin": origin}
    assert advice("y = data[i].to(d)", "data[i].to(d)", **known)[0] == cause


@pytest.mark.parametrize(
    ("statement", "expression", "told", "known", "cause"),
    [
        ("x.masked_fill_(m, v)", "x.masked_fill_(m, v)", "", {},
         "scalar_readback"),
        ("y = torch.where(m, x, v)", "torch.where(m, x, v)", "",
         UPLOAD | {"op": "aten::where.self"}, "pageable_batch"),
        ("y = x.to_sparse_csr()", "x.to_sparse_csr()", "", {},
         "data_dependent_size"),
        ("y = torch.full((2,), v)", "torch.full((2,), v)", "scalar_readback", {},
         "scalar_readback"),
        ("y = torch.full((n, 2), 0.0)", "torch.full((n, 2), 0.0)", "scalar_readback", {},
         "data_dependent_size"),
    ],
)  # fmt: skip
def test_only_a_size_is_told_to_be_one(
    statement: str, expression: str, told: str, known: dict[str, Any], cause: str
) -> None:
    assert advice(statement, expression, hook_cause=told, **known)[0] == cause


def test_only_a_loop_is_told_to_ask_every_few_rounds() -> None:
    title = "Ask every few rounds whether to stop"
    assert advice("if x.any(): return", "x.any()")[1].title == "Decide on the device"
    assert advice("for x in xs:\n    if x.any(): return", "x.any()")[1].title == title
    assert advice("while x.any(): f()", "x.any()")[1].title == title


@pytest.mark.parametrize(
    ("file", "function", "known", "title", "text"),
    [
        ("torch/serialization.py", "save", COPY, "Save less often, or from a copy", "Saving"),
        ("torch/serialization.py", "load", UPLOAD, "Load once, before the loop", "Loading"),
        ("torch/optim/adam.py", "Adam.step", {}, "Keep the library from reading the device",
         "The optimizer reads its step count"),
        ("torch/optim/lbfgs.py", "LBFGS.step", {}, "Keep the library from reading the device",
         "LBFGS looks at the loss"),
        ("torch/optim/swa_utils.py", "update_parameters", {},
         "Keep the library from reading the device", "The averaged model keeps"),
        ("torch/nn/functional.py", "ctc_loss", UPLOAD, "Keep the library from uploading",
         "Your line calls PyTorch, which uploads"),
    ],
)  # fmt: skip
def test_the_advice_is_about_what_the_library_does(
    file: str, function: str, known: dict[str, Any], title: str, text: str
) -> None:
    given = advice("f(x)", "f(x)", ((file, function),), **known)[1]
    assert given.title == title
    assert given.text.startswith(text)


def test_what_ran_once_is_not_told_to_change_for_a_loop() -> None:
    once, often = (
        advice("y = x.to(device)", "x.to(device)", **UPLOAD, size_bytes=1 << 20, count=count)[1]
        for count in (1, 4)
    )
    assert "once in this run" in once.text
    assert "pin_memory=True" in often.text


def test_a_cause_that_nobody_knows_does_not_stop_the_rules() -> None:
    assert advice("y = x.item()", "x.item()", hook_cause="no such cause")[0] == "scalar_readback"


@pytest.mark.parametrize("expression", ["", "x[", "lambda: (", "\0", "if x:", "é.item()", "}"])
def test_any_text_gets_some_cause(expression: str) -> None:
    frame = Frame(0, "case.py", "main", 1, 1, -1, -1, expression, "user")
    group = replace(PLAIN, place=Place(frame, (), (frame,), "user"))
    cause, _ = diagnose(Finding(group, Sources({}).expression(frame)))
    assert cause in CAUSES


def test_where_columns_are_unknown_the_whole_line_is_evidence() -> None:
    frame = Frame(0, "case.py", "main", 1, 1, -1, -1, "kept = torch.nonzero(mask)", "user")
    group = replace(PLAIN, place=Place(frame, (), (frame,), "user"))
    assert diagnose(Finding(group, Sources({}).expression(frame)))[0] == "data_dependent_size"


def test_no_advice_names_an_asynchronous_readback_without_an_event() -> None:
    for rule in RULES:
        for direction in ("d2h", ""):
            found = finding("y = x.cpu()", "x.cpu()", direction=direction, op="Tensor.cpu")
            text = rule.text(found)
            assert not rule.rewrite(found)
            if "non_blocking" in text and rule.cause.endswith("readback"):
                assert "event" in text


def test_a_model_is_never_told_to_move_without_blocking() -> None:
    inner = (("torch/nn/modules/module.py", "Module.to"),)
    assert advice("model.to(device)", "model.to(device)", inner=inner, **UPLOAD)[1].rewrite == ""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.cause}-{rule.title}")
def test_an_advice_is_short_and_plain(rule: Rule) -> None:
    text = rule.text(finding("y = x.cpu()", "x.cpu()", op="Tensor.cpu"))
    assert len(rule.title) <= MAX_TITLE
    assert rule.title[0].isupper()
    assert not rule.title.endswith(".")
    assert text.endswith(".")
    assert len(text) < 500
    assert "_ops.py" not in text


def test_the_general_rule_of_a_cause_is_its_last() -> None:
    assert RULES[-1].cause == "generic"
    assert RULES[-1].applies(finding("y = x", "x"))
