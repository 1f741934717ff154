-- Views over cowprof recordings for DuckDB 1.1 and later; docs/export.md shows queries.
--
--   SET VARIABLE cowprof_files = 'recordings/*.json';   -- the default: '*.json'
--   .read cowprof.sql
--
-- Each view has `recording`, the path of the file. Files are read line by line, at each query: a recording that still
-- runs or was cut off is read up to its last whole record, and what is not a recording is left out.
SET VARIABLE cowprof_files = coalesce(getvariable('cowprof_files'), '*.json');

CREATE OR REPLACE VIEW cowprof_lines AS
SELECT filename AS recording, trim(line, ', ') AS line
FROM read_csv(getvariable('cowprof_files'), columns = {'line': 'VARCHAR'}, header = false, delim = E'\x01', quote = '',
              escape = '', comment = '', auto_detect = false, filename = true, max_line_size = 16777216,
              null_padding = true, ignore_errors = true);

-- One row a recording.
CREATE OR REPLACE VIEW cowprof_recordings AS
SELECT recording,
       header->>'$.identity.host' AS host,
       header->>'$.identity.job_id' AS job_id,
       CAST(header->>'$.identity.rank' AS BIGINT) AS rank,
       header->'$.identity.labels' AS labels,
       CAST(header->>'$.target.pid' AS BIGINT) AS pid,
       header->>'$.target.command' AS command,
       CAST(header->>'$.started' AS TIMESTAMPTZ) AS started,
       header->>'$.plan.rung' AS rung,
       header->>'$.plan.exactness' AS exactness,
       CAST(header->>'$.host.page_bytes' AS BIGINT) AS page_bytes,
       header
FROM (SELECT recording, json(line || ']}')->'header' AS header
      FROM cowprof_lines
      WHERE starts_with(line, '{"schema":"cowprof.timeline/1"') AND json_valid(line || ']}'));

-- Every record as it is written; `t`: seconds since the start.
CREATE OR REPLACE VIEW cowprof_records AS
SELECT recording, CAST(record->>'t' AS DOUBLE) AS t, record->>'type' AS type, record
FROM (SELECT recording, json(line) AS record
      FROM cowprof_lines
      WHERE starts_with(line, '{"t":') AND json_valid(line))
SEMI JOIN cowprof_recordings USING (recording);

CREATE OR REPLACE VIEW cowprof_events AS
SELECT recording, t, record->>'event' AS event, CAST(record->>'index' AS BIGINT) AS index, record
FROM cowprof_records WHERE type = 'event';

CREATE OR REPLACE VIEW cowprof_alerts AS
SELECT recording, t, record->>'rule' AS rule, CAST(record->>'over' AS BOOLEAN) AS over, record->>'kind' AS kind,
       record->>'name' AS name, record->>'text' AS text
FROM cowprof_records WHERE type = 'alert';

-- Figures of a process when they changed; counters since it was first followed.
CREATE OR REPLACE VIEW cowprof_samples AS
SELECT recording, t, row[1] AS index, row[copies_at] AS copies, row[copies_at] * page_bytes AS copied_bytes,
       row[faults_at] AS faults, row[anon_at] * page_bytes AS anon_bytes, row[descriptors_at] AS descriptors
FROM (SELECT recording, t, unnest(CAST(record->'processes' AS UBIGINT[][])) AS row
      FROM cowprof_records WHERE type = 'sample')
JOIN (SELECT recording, page_bytes, list_position(columns, 'copies') AS copies_at,
             list_position(columns, 'faults') AS faults_at, list_position(columns, 'anon_pages') AS anon_at,
             list_position(columns, 'descriptors') AS descriptors_at
      FROM (SELECT recording, page_bytes, CAST(header->'$.columns.processes' AS VARCHAR[]) AS columns
            FROM cowprof_recordings)) USING (recording);

-- Copies by cause, when they changed: a row a cause.
CREATE OR REPLACE VIEW cowprof_causes AS
SELECT recording, t, row[1] AS index, unnest(columns[2:]) AS cause, unnest(row[2:]) AS copies
FROM (SELECT recording, t, unnest(CAST(record->'causes' AS UBIGINT[][])) AS row
      FROM cowprof_records WHERE type = 'sample')
JOIN (SELECT recording, CAST(header->'$.columns.causes' AS VARCHAR[]) AS columns FROM cowprof_recordings)
USING (recording);

-- One row a process, with its last figures.
CREATE OR REPLACE VIEW cowprof_processes AS
SELECT recording, index, CAST(record->>'pid' AS BIGINT) AS pid, CAST(record->>'parent' AS BIGINT) AS parent_index,
       record->>'command' AS command, started.t AS started, last.copies, last.copied_bytes
FROM (SELECT * FROM cowprof_events WHERE event = 'process') AS started
LEFT JOIN (SELECT recording, index, max(copies) AS copies, max(copied_bytes) AS copied_bytes
           FROM cowprof_samples GROUP BY ALL) AS last
USING (recording, index);

-- The copies of each process by cause, type and innermost Python line, as far as they were sampled, scaled to all that
-- were counted.
CREATE OR REPLACE VIEW cowprof_copies AS
WITH sites AS (
  SELECT recording, CAST(site->>0 AS UBIGINT) AS place, site->>1 AS cause, site->>2 AS type,
         CAST(site->'$[5][0]' AS UBIGINT) AS frame
  FROM (SELECT recording, unnest(CAST(record->'new_places' AS JSON[])) AS site
        FROM cowprof_records WHERE type = 'sample')),
frames AS (
  SELECT recording, CAST(frame->>0 AS UBIGINT) AS frame, frame->>1 AS file, frame->>2 AS function,
         CAST(frame->>3 AS BIGINT) AS line
  FROM (SELECT recording, unnest(CAST(record->'frames' AS JSON[])) AS frame
        FROM cowprof_records WHERE type = 'sample')),
counts AS (
  SELECT recording, row[1] AS index, row[2] AS place, max(row[3]) AS sampled
  FROM (SELECT recording, unnest(CAST(record->'places' AS UBIGINT[][])) AS row
        FROM cowprof_records WHERE type = 'sample')
  GROUP BY ALL)
SELECT recording, index, cause, type, file, function, line,
       processes.copies * sampled / sum(sampled) OVER (PARTITION BY recording, index) AS copies
FROM counts JOIN sites USING (recording, place) LEFT JOIN frames USING (recording, frame)
JOIN cowprof_processes AS processes USING (recording, index);

-- Use of each limit, when it changed.
CREATE OR REPLACE VIEW cowprof_limits AS
WITH names AS (
  SELECT recording, CAST(named->>'limit' AS BIGINT) AS number, named->>'kind' AS kind, named->>'name' AS name,
         named->>'unit' AS unit
  FROM (SELECT recording, unnest(CAST(record->'new_limits' AS JSON[])) AS named
        FROM cowprof_records WHERE type = 'sample'))
SELECT used.recording, t, kind, name, unit, CAST(row[2] AS UBIGINT) AS used, CAST(row[3] AS UBIGINT) AS "limit"
FROM (SELECT recording, t, unnest(CAST(record->'limits' AS DOUBLE[][])) AS row
      FROM cowprof_records WHERE type = 'sample') AS used
JOIN names ON used.recording = names.recording AND used.row[1] = names.number;
