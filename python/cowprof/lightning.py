"""Logs what the workers of a Lightning trainer copy: Trainer(callbacks=[CowprofCallback("run.json")])."""
from __future__ import annotations

import os
from typing import Any, Optional

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from cowprof._callback import Watch


class CowprofCallback(Callback):
    """Records fit() to `path` and logs cowprof/copied, cowprof/private and cowprof/eta every `every_n_steps` batches.

    on_alert: "stop" ends training at the first alert of any rank, "checkpoint" also saves cowprof-alert.ckpt first. `options` are those of the command line.
    """

    def __init__(self, path: "str | os.PathLike[str]", every_n_steps: int = 50, on_alert: Optional[str] = None, **options: Any) -> None:
        super().__init__()
        self._watch = Watch(path, every_n_steps, on_alert, options)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage == "fit":
            self._watch.start()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if not self._watch.is_due():
            return
        figures, alerted = self._watch.look()
        for logger in trainer.loggers if figures else []:
            logger.log_metrics(figures, step=trainer.global_step)
        # All ranks come here at the same batch, and have to decide the same.
        if self._watch.on_alert and trainer.strategy.reduce_boolean_decision(alerted, all=False):
            if self._watch.on_alert == "checkpoint":
                trainer.save_checkpoint(os.path.join(trainer.default_root_dir, "cowprof-alert.ckpt"))
            trainer.should_stop = True

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._watch.stop()  # no teardown follows

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._watch.stop()
