-- What a release of revision 0006 writes through its store; ids that are counted up are left to the database.
INSERT INTO attempts (id, job_id, began_at, ended_at, result, error, figures)
  VALUES ('a1', 'j1', 1790000000, 1790000001, 'failed', 'disk full', '{}');
INSERT INTO controls (kind, target_kind, target, reason, requested_by, requested_at)
  VALUES ('pause', 'table', 'orders', 'maintenance', 'ada', 1790000000);
INSERT INTO daemons (holder, service, version, started_at, beat_at)
  VALUES ('d1', 'lakeward', '0.1.0', 1790000000, 1790000000);
INSERT INTO decisions (table_name, partition_path, file_id, choice, reason, numbers, decided_at, digest)
  VALUES ('orders', 'day=1', 'fg1-0', 'FULL', 'log-ratio', '{"log_bytes": 7, "ratio": 0.5}', 1790000000, 'd57874ffb657ee88');
INSERT INTO events (at, kind, table_name, partition_path, file_id, text, fields)
  VALUES (1790000000, 'parked', 'orders', 'day=1', 'fg2-0', 'five times', '{}');
INSERT INTO jobs (id, table_name, service, instant, holder, began_at, ended_at, result, operations, read_bytes, write_bytes, memory_bytes, figures, from_timeline)
  VALUES ('j1', 'orders', 'compaction', '20260921141320000', 'd1', 1790000000, 1790000002, 'committed', 0, 0, 0, 0, '{"rows": 6}', false);
INSERT INTO leases (table_name, token, until)
  VALUES ('orders', 9000000000000, 0);
INSERT INTO observed_operations (table_name, instant, action, partition_path, file_id, kind, base_instant, log_files, read_bytes, write_bytes)
  VALUES ('orders', '20260921141320000', 'compaction', 'day=1', 'fg1-0', 'FULL', '20260921141300000', 3, 50, 7);
INSERT INTO observed_plans (table_name, instant, action, state, requested_at, planned_by, planned_by_service, planned_by_store, digest)
  VALUES ('orders', '20260921141320000', 'compaction', 'requested', 1790000000, 'lakeward', 'lakeward', '3f3a3c3151fd470381aa1012af1d5e3f', 'b939d1a0079c4e66');
INSERT INTO parked_groups (table_name, partition_path, file_id, kind, reason, failures, parked_at)
  VALUES ('orders', 'day=1', 'fg2-0', 'failed', 'five times', 5, 1790000000);
INSERT INTO plannings (table_name, planned_at, instant, file_groups)
  VALUES ('orders', 1790000000, '20260921141320000', 1);
INSERT INTO store_identity (id, store_id, created_at)
  VALUES (1, '3f3a3c3151fd470381aa1012af1d5e3f', 1795336978.522872);
INSERT INTO watched_tables (table_name, base_path, first_watched_at, seen_at)
  VALUES ('orders', '/lake/orders', 1790000000, 1790000000);
INSERT INTO cleaner_progress (job_id, instant, files, files_total, at)
  VALUES ('j2', '20260921141400000', 500, 1200, 1790000000);
INSERT INTO index_builds (id, table_name, index_name, index_type, settings, file_groups, began_at, figures)
  VALUES ('b1', 'orders', 'record', 'record', '{}', 2, 1790000000, '{}');
INSERT INTO index_checkpoints (build_id, partition_path, file_id, instant, entries, bytes, made, at)
  VALUES ('b1', 'day=1', 'fg1-0', '20260921141320000', 9, 120, '[]', 1790000000);
