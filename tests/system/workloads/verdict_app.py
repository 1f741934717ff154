"""A prefork application that reads a list of strings of its parent's, or collects: for gunicorn (app) and Celery (celery_app).

VERDICT_ITEMS says how many strings; negative: so many lists, which the collector tracks and which are not frozen. VERDICT_FOLDER is
where Celery's messages are, and where its tasks leave the pids of workers.
"""
import gc
import os
import time

COUNT = int(os.environ["VERDICT_ITEMS"])
ITEMS = [[i] for i in range(-COUNT)] if COUNT < 0 else [str(i).rjust(200, "x") for i in range(COUNT)]
FOLDER = os.environ.get("VERDICT_FOLDER", "")
if COUNT > 0:
    gc.collect()
    gc.freeze()


def read():
    return sum(len(text) for text in ITEMS)  # planted: app


def app(environ, start_response):
    if environ["PATH_INFO"] == "/read":
        read()
    if environ["PATH_INFO"] == "/collect":
        gc.collect()  # planted: collect
    time.sleep(0.02)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]


if FOLDER:
    import celery

    celery_app = celery.Celery("verdict", broker="filesystem://")
    celery_app.conf.broker_transport_options = {"data_folder_in": f"{FOLDER}/queue", "data_folder_out": f"{FOLDER}/queue"}

    @celery_app.task(name="verdict.work")
    def work(what):
        if what == "/read":
            read()
        if what == "/collect":
            gc.collect()  # planted: task
        time.sleep(0.1)
        with open(f"{FOLDER}/pids/{os.getpid()}", "w", encoding="utf-8"):
            pass
