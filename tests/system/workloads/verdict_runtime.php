<?php
// A prefork program in PHP: verdict_runtime.php KIND. verdict_cases.py holds what is true of each.
//
// Prints "ready" once the rows are there, waits for a line, and forks 4 workers, each of which reads every fourth row and prints
// "worked". KIND: "arrays"; "text": all rows in one text, with an array of offsets.
ini_set('memory_limit', '2G');
$kind = $argv[1];
function say($event) { printf("{\"event\": \"%s\", \"pid\": %d}\n", $event, getmypid()); }
$rows = [];
$text = '';
$offsets = [0];
for ($i = 0; $i < 200000; $i++) {
  $one = "row $i " . str_repeat('x', $i % 50);
  if ($kind === 'arrays') {
    $rows[] = ['id' => $i, 'text' => $one];
  } else {
    $text .= $one;
    $offsets[] = strlen($text);
  }
}
say('ready');
fgets(STDIN);
for ($worker = 0; $worker < 4; $worker++) {
  if (pcntl_fork() !== 0) continue;
  $length = 0;
  for ($i = $worker; $i < 200000; $i += 4) {
    if ($kind === 'arrays') {
      $row = $rows[$i];
      $one = $row['text'];
    } else {
      $one = substr($text, $offsets[$i], $offsets[$i + 1] - $offsets[$i]);
    }
    $length += strlen($one);
  }
  say('worked');
  sleep(1000);
}
fgets(STDIN);
