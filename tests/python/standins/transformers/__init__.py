"""Stands in for transformers (as of 55093b758b33; Trainer.log() takes start_time since 4.47): callbacks, their flags, and log().

transformers is not in Debian. As in the real CallbackHandler, flags are reset before a step, and `should_log` by each log().
"""


class TrainerControl:
    def __init__(self):
        self.should_training_stop = self.should_epoch_stop = self.should_save = self.should_evaluate = self.should_log = False


class TrainerState:
    def __init__(self):
        self.global_step, self.log_history = 0, []


class TrainingArguments:
    def __init__(self, world_size=1, logging_steps=1):
        self.world_size, self.logging_steps = world_size, logging_steps


class TrainerCallback:
    def on_train_begin(self, args, state, control, **kwargs):
        pass

    def on_step_end(self, args, state, control, **kwargs):
        pass

    def on_log(self, args, state, control, **kwargs):
        pass

    def on_train_end(self, args, state, control, **kwargs):
        pass


class DefaultFlowCallback(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % args.logging_steps == 0:
            control.should_log = True
        return control


class Trainer:
    def __init__(self, args):
        self.args, self.state, self.control = args, TrainerState(), TrainerControl()
        self.callbacks, self.saved = [DefaultFlowCallback()], []

    def add_callback(self, callback):
        self.callbacks.append(callback)

    def _call(self, event, **kwargs):
        for callback in self.callbacks:
            result = getattr(callback, event)(self.args, self.state, self.control, model=None, processing_class=None, optimizer=None,
                                              lr_scheduler=None, train_dataloader=None, eval_dataloader=None, **kwargs)
            self.control = self.control if result is None else result

    def log(self, logs, start_time=None):
        self.state.log_history.append({**logs, "step": self.state.global_step})
        self.control.should_log = False
        self._call("on_log", logs=logs)

    def train(self, steps):
        """`steps` are functions, one a step."""
        self._call("on_train_begin")
        for step in steps:
            self.control.should_log = self.control.should_evaluate = self.control.should_save = False
            step()
            self.state.global_step += 1
            self._call("on_step_end")
            if self.control.should_log:
                self.log({"loss": 1.0})
            if self.control.should_save:
                self.saved.append(self.state.global_step)
                self.control.should_save = False
            if self.control.should_training_stop:
                break
        self._call("on_train_end")
