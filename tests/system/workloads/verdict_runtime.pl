#!/usr/bin/perl
# A prefork program in Perl: verdict_runtime.pl KIND. verdict_cases.py holds what is true of each.
#
# Prints "ready" once the rows are there, waits for a line, and forks 4 workers, each of which reads every fourth row and prints
# "worked". KIND: "reads": texts are used as numbers; "used": the parent has used each before; "exits": so it has, and the workers
# end with exit; "leaves": with POSIX::_exit.
use strict;
use warnings;
use POSIX ();

my ($kind) = @ARGV;
$| = 1;
my @rows = map { {id => "$_", text => "row $_ " . ("x" x 40), value => $_ / 2 . ""} } 1 .. 150_000;
my $sum = 0;
if ($kind ne "reads") { $sum += $_->{id} + $_->{value} for @rows }
print qq({"event": "ready", "pid": $$}\n);
<STDIN>;
for my $worker (0 .. 3) {
  next if fork;
  for (my $i = $worker; $i < @rows; $i += 4) { $sum += $rows[$i]{id} + $rows[$i]{value} }
  print qq({"event": "worked", "pid": $$}\n);
  exit 0 if $kind eq "exits";
  POSIX::_exit(0) if $kind eq "leaves";
  sleep 1000;
}
<STDIN>;
kill "KILL", 0;
