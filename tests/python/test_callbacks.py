"""The callbacks in stand-ins of their trainers: what they log is what the recording says, and an alert stops or saves."""
import gc
import inspect
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cowprof
import harness
from self_recording import fork_reader

STRINGS = [str(number).zfill(300) for number in range(20000)]
BYTES = len({id(text) >> 12 for text in STRINGS}) * harness.PAGE  # what a worker that reads all copies
ON_ALERT = ["checkpoint", *(pytest.param(way, marks=pytest.mark.slow) for way in (None, "stop"))]
FULL = {"alert_at": "host=1%:10ms", "interval": "100ms"}  # more of the host's memory is used already


@pytest.fixture(autouse=True)
def standins(monkeypatch):
    monkeypatch.setenv("COWPROF", str(harness.COWPROF))
    monkeypatch.syspath_prepend(str(Path(__file__).with_name("standins")))
    gc.disable()
    yield
    gc.enable()
    for name in [name for name in sys.modules if name.split(".")[0] in ("lightning", "transformers") or name in ("cowprof.lightning", "cowprof.transformers")]:
        del sys.modules[name]


class Epoch:
    """Two batches: a worker reads all, and it ends."""

    def __init__(self):
        self.finish = None

    def first(self):
        _, await_reader, self.finish = fork_reader(STRINGS)
        await_reader()
        time.sleep(0.3)  # three samples

    def second(self):
        self.finish()
        time.sleep(0.3)

    def steps(self):
        return [self.first, self.second]


def check(first, second, path):
    assert BYTES <= first["cowprof/copied"] <= BYTES + (2 << 20)
    assert BYTES <= first["cowprof/private"] <= BYTES + (2 << 20)
    assert second["cowprof/private"] == 0 and second["cowprof/copied"] >= first["cowprof/copied"]
    assert "cowprof/eta" not in first  # no alert holds
    report = harness.report_of(path)
    assert abs(second["cowprof/copied"] - report["workers"][0]["copied_bytes"]) <= 16 * harness.PAGE
    assert harness.load_json(path)["records"][-1]["reason"] == "stopped by the target"


def test_lightning_logs_by_all_loggers(tmp_path):
    from cowprof.lightning import CowprofCallback
    from lightning.pytorch import Trainer
    trainer = Trainer([CowprofCallback(tmp_path / "run.json", every_n_steps=1, interval="100ms")], str(tmp_path))
    trainer.fit(Epoch().steps())
    assert trainer.loggers[0].logged == trainer.loggers[1].logged and not trainer.should_stop
    (first, figures), (second, later) = trainer.loggers[0].logged
    assert (first, second) == (1, 2)
    check(figures, later, tmp_path / "run.json")


def test_a_recorder_that_failed_does_not_fail_the_training(tmp_path):
    from cowprof.lightning import CowprofCallback
    from lightning.pytorch import Trainer
    callback = CowprofCallback(tmp_path / "run.json")
    with pytest.warns(RuntimeWarning, match="status -9"):
        Trainer([callback], str(tmp_path)).fit([lambda: callback._watch.recording._reader.kill()])


def test_a_recorder_that_cannot_start_does_not_fail_the_training(tmp_path):
    """One rank that ends would leave the others waiting for it."""
    from cowprof.lightning import CowprofCallback
    from lightning.pytorch import Trainer
    trainer = Trainer([CowprofCallback(tmp_path / "none" / "run.json", every_n_steps=1, on_alert="stop")], str(tmp_path))
    asked = []
    trainer.strategy.reduce_boolean_decision = lambda decision, all=True: asked.append(decision) or decision
    with pytest.warns(RuntimeWarning, match="No such file or directory; training goes on without a recording, and on_alert does nothing"):
        trainer.fit([lambda: None] * 2)
    assert trainer.global_step == 2 and asked == [False, False] and not trainer.loggers[0].logged


def test_transformers_trains_without_a_recorder_that_cannot_start(tmp_path):
    from cowprof.transformers import CowprofCallback
    from transformers import Trainer, TrainingArguments
    trainer = Trainer(TrainingArguments())
    trainer.add_callback(CowprofCallback(trainer, tmp_path / "none" / "run.json", every_n_steps=1))
    with pytest.warns(RuntimeWarning, match="training goes on without a recording$"):
        trainer.train([lambda: None] * 2)
    assert trainer.state.global_step == 2 and all("loss" in line for line in trainer.state.log_history)


def test_transformers_logs_by_the_trainer_and_leaves_its_own_line(tmp_path):
    from cowprof.transformers import CowprofCallback
    from transformers import Trainer, TrainingArguments
    trainer = Trainer(TrainingArguments())
    trainer.add_callback(CowprofCallback(trainer, tmp_path / "run.json", every_n_steps=1, interval="100ms"))
    trainer.train(Epoch().steps())
    ours = [line for line in trainer.state.log_history if "cowprof/copied" in line]
    assert [line["step"] for line in ours] == [line["step"] for line in trainer.state.log_history if "loss" in line] == [1, 2]
    check(*ours, tmp_path / "run.json")


@pytest.mark.parametrize("on_alert", ON_ALERT)
def test_lightning_stops_on_an_alert(on_alert, tmp_path):
    from cowprof.lightning import CowprofCallback
    from lightning.pytorch import Trainer
    trainer = Trainer([CowprofCallback(tmp_path / "run.json", every_n_steps=2, on_alert=on_alert, **FULL)], str(tmp_path))
    trainer.fit([lambda: time.sleep(0.2)] * 4)
    assert trainer.global_step == (2 if on_alert else 4)
    assert trainer.saved == ([str(tmp_path / "cowprof-alert.ckpt")] if on_alert == "checkpoint" else [])


@pytest.mark.parametrize("on_alert", ON_ALERT)
def test_transformers_stops_on_an_alert(on_alert, tmp_path):
    from cowprof.transformers import CowprofCallback
    from transformers import Trainer, TrainingArguments
    trainer = Trainer(TrainingArguments())
    trainer.add_callback(CowprofCallback(trainer, tmp_path / "run.json", every_n_steps=2, on_alert=on_alert, **FULL))
    trainer.train([lambda: time.sleep(0.2)] * 4)
    assert trainer.state.global_step == (2 if on_alert else 4)
    assert trainer.saved == ([2] if on_alert == "checkpoint" else [])


def test_lightning_stops_all_ranks_or_none(tmp_path):
    """Another rank's alert stops this one, too: the strategy decides."""
    from cowprof.lightning import CowprofCallback
    from lightning.pytorch import Trainer
    trainer = Trainer([CowprofCallback(tmp_path / "run.json", every_n_steps=1, on_alert="stop")], str(tmp_path))
    asked = []
    trainer.strategy.reduce_boolean_decision = lambda decision, all=True: asked.append((decision, all)) or len(asked) == 2
    trainer.fit([lambda: None] * 4)
    assert trainer.global_step == 2 and asked == [(False, False)] * 2


def test_transformers_refuses_to_stop_one_of_several_processes(tmp_path):
    from cowprof.transformers import CowprofCallback
    from transformers import Trainer, TrainingArguments
    trainer = Trainer(TrainingArguments(world_size=2))
    trainer.add_callback(CowprofCallback(trainer, tmp_path / "run.json", on_alert="stop"))
    with pytest.raises(ValueError, match="one process only"):
        trainer.train([])
    assert not (tmp_path / "run.json").exists()


def fail():
    raise RuntimeError("planted")


def ending(path):
    return harness.load_json(path)["records"][-1].get("reason")


def test_lightning_ends_the_recording_of_a_fit_that_fails(tmp_path):
    from cowprof.lightning import CowprofCallback
    from lightning.pytorch import Trainer
    trainer = Trainer([CowprofCallback(tmp_path / "run.json")], str(tmp_path))
    with pytest.raises(RuntimeError, match="planted"):
        trainer.fit([fail])
    assert ending(tmp_path / "run.json") == "stopped by the target"


def test_transformers_records_again_after_a_training_that_failed(tmp_path):
    """No hook says that it failed."""
    from cowprof.transformers import CowprofCallback
    from transformers import Trainer, TrainingArguments
    trainer = Trainer(TrainingArguments())
    trainer.add_callback(CowprofCallback(trainer, tmp_path / "run.json"))
    with pytest.raises(RuntimeError, match="planted"):
        trainer.train([fail])
    trainer.train([lambda: None])
    assert [ending(tmp_path / name) for name in ("run.json.old", "run.json")] == ["stopped by the target"] * 2


def test_the_recording_of_a_training_that_fails_ends_with_the_program(tmp_path):
    program = """import sys
from cowprof.transformers import CowprofCallback
from transformers import Trainer, TrainingArguments
trainer = Trainer(TrainingArguments())
trainer.add_callback(CowprofCallback(trainer, sys.argv[1]))
trainer.train([lambda: 1 / 0])
"""
    path = os.pathsep.join([str(harness.REPOSITORY / "python"), str(Path(__file__).with_name("standins"))])
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "run.json"], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
                          timeout=harness.DEADLINE, check=False)
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero", done.stderr
    assert ending(tmp_path / "run.json") == "stopped by the target"


def test_wrong_arguments_are_refused(tmp_path):
    from cowprof.lightning import CowprofCallback
    with pytest.raises(ValueError, match="on_alert is 'halt'"):
        CowprofCallback(tmp_path / "run.json", on_alert="halt")
    with pytest.raises(ValueError, match="every_n_steps"):
        CowprofCallback(tmp_path / "run.json", every_n_steps=0)
    from lightning.pytorch import Trainer
    with pytest.raises(cowprof.NotAttached, match="--bogus=1"):
        Trainer([CowprofCallback(tmp_path / "run.json", bogus=1, serve=None)], str(tmp_path)).fit([])


def test_a_port_that_another_ranks_recorder_has_does_not_end_the_training(tmp_path):
    from cowprof.lightning import CowprofCallback
    from lightning.pytorch import Trainer
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.warns(RuntimeWarning, match="training goes on without a recording"):
        Trainer([CowprofCallback(tmp_path / "run.json", metrics_listen=other.getsockname()[1])], str(tmp_path)).fit([])


def test_hooks_have_the_parameters_of_those_that_they_override():
    import cowprof.lightning
    import cowprof.transformers
    for module in cowprof.lightning, cowprof.transformers:
        overridden = [name for name in vars(module.CowprofCallback) if not name.startswith("_")]
        assert overridden
        for name in overridden:
            own, base = (list(inspect.signature(getattr(one, name)).parameters) for one in (module.CowprofCallback, module.CowprofCallback.__mro__[1]))
            assert own == base, name
