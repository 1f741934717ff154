"""Logs what the workers of a Hugging Face trainer copy: trainer.add_callback(CowprofCallback(trainer, "run.json"))."""
from __future__ import annotations

import os
from typing import Any, Optional

from transformers import TrainerCallback

from cowprof._callback import Watch


class CowprofCallback(TrainerCallback):
    """Records train() to `path` and logs cowprof/copied, cowprof/private and cowprof/eta every `every_n_steps` steps by trainer.log().

    on_alert: "stop" ends training at the first alert, "checkpoint" also saves one; on one process only. `options` are those of the command line.
    """

    def __init__(self, trainer: Any, path: "str | os.PathLike[str]", every_n_steps: int = 50, on_alert: Optional[str] = None, **options: Any) -> None:
        self._trainer, self._watch = trainer, Watch(path, every_n_steps, on_alert, options)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._watch.on_alert and args.world_size > 1:
            raise ValueError("on_alert stops one process only: with several, the others would wait for it forever")
        self._watch.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self._watch.is_due():
            return
        figures, alerted = self._watch.look()
        if figures:
            should_log = control.should_log  # log() resets it, and with it the trainer's own line of this step
            self._trainer.log(figures)
            control.should_log = should_log
        if self._watch.on_alert and alerted:
            control.should_training_stop = True
            control.should_save |= self._watch.on_alert == "checkpoint"

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._watch.stop()
