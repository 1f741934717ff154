# mcparallel over a list of lists or over numbers: Rscript verdict_runtime.R KIND. verdict_cases.py holds what is true of each.
#
# Prints "ready" once the data is there, waits for a line, and forks 4 workers, each of which reads every fourth item, collects
# garbage and prints "worked". KIND: "lists", or "numbers": the same values in two vectors.
kind <- commandArgs(trailingOnly = TRUE)[1]
say <- function(event) cat(sprintf('{"event": "%s", "pid": %d}\n', event, Sys.getpid()))
n <- 200000
lists <- if (kind == "lists") lapply(seq_len(n), function(i) list(id = i, text = paste("row", i), value = i / 2))
numbers <- list(id = seq_len(n) + 0, value = seq_len(n) / 2)
for (i in 1:4) invisible(gc())
input <- file("stdin", "r")
say("ready")
invisible(readLines(input, n = 1))
for (worker in 1:4) {
  parallel::mcparallel({
    sum <- 0
    for (i in seq(worker, n, by = 4)) {
      sum <- sum + if (kind == "lists") lists[[i]]$value + lists[[i]]$id else numbers$value[i] + numbers$id[i]
    }
    invisible(gc())
    say("worked")
    Sys.sleep(1000)
  })
}
invisible(readLines(input, n = 1))
