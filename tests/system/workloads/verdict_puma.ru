# A Ruby application of VERDICT_ITEMS strings, for puma in cluster mode. /collect runs Ruby's collector four times. It counts the age
# of each object in the object, so the first collections in a worker write to all that was inherited, unless the parent has
# collected as often, as it does if VERDICT_ITEMS is negative.
COUNT = Integer(ENV["VERDICT_ITEMS"])
ITEMS = Array.new(COUNT.abs) { |i| i.to_s.rjust(60, "x") }
4.times { GC.start } if COUNT < 0

run lambda { |env|
  4.times { GC.start } if env["PATH_INFO"] == "/collect"
  sleep 0.02
  [200, { "Content-Type" => "text/plain" }, [Process.pid.to_s]]
}
