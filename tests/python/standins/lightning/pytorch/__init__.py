"""Stands in for lightning 2.6.2: the hooks of Callback that matter here and what they may call, with the real signatures.

lightning is not in Debian. The order is that of Trainer.fit(): setup, batches, teardown; or, if a batch fails, on_exception and no teardown.
"""


class Callback:
    def setup(self, trainer, pl_module, stage):
        pass

    def teardown(self, trainer, pl_module, stage):
        pass

    def on_exception(self, trainer, pl_module, exception):
        pass

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        pass


class Logger:
    def __init__(self):
        self.logged = []

    def log_metrics(self, metrics, step=None):
        self.logged.append((step, dict(metrics)))


class Strategy:
    def reduce_boolean_decision(self, decision, all=True):  # pylint: disable=redefined-builtin
        return decision


class Trainer:
    def __init__(self, callbacks, default_root_dir):
        self.callbacks, self.default_root_dir = callbacks, default_root_dir
        self.loggers, self.strategy = [Logger(), Logger()], Strategy()
        self.should_stop, self.global_step, self.saved = False, 0, []

    def save_checkpoint(self, filepath, weights_only=None, storage_options=None):
        self.saved.append(filepath)

    def _call(self, hook, *arguments):
        for callback in self.callbacks:
            getattr(callback, hook)(self, None, *arguments)

    def fit(self, steps):
        """`steps` are functions, one a batch."""
        try:
            self._fit(steps)
        except BaseException as exception:
            self._call("on_exception", exception)
            raise

    def _fit(self, steps):
        self._call("setup", "fit")
        for number, step in enumerate(steps):
            step()
            self.global_step += 1
            self._call("on_train_batch_end", {}, None, number)
            if self.should_stop:
                break
        self._call("teardown", "fit")
