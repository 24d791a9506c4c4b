package postgres

import (
	"context"
	"fmt"
	"math"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// The functions lock the row of task_log_size first, and no row of a task.
const (
	appendLogs = `select {schema}.append_logs($1, $2::uuid[], $3::bigint[], $4::bigint[], $5::bytea[])`
	removeLogs = `select {schema}.remove_logs($1::uuid[])`
	trimLogs   = `select {schema}.trim_logs($1, $2)`

	selectLog = `
with begin as (select total - octet_length(data) as at from {task_log} where task = $1 and at > $2 order by at limit 1)
select t.at, t.mark, t.at < (select max(at) from {task_log} where task = $1), t.data from {task_log} t, begin b
where t.task = $1 and t.at > $2 and (t.total - b.at <= $3 or t.total - octet_length(t.data) = b.at) order by t.at`

	selectLogged = `
with recursive logged as (
	(select task from {task_log} where task > $1 order by task limit 1)
	union all
	select (select t.task from {task_log} t where t.task > l.task order by t.task limit 1) from logged l where l.task is not null)
select task from logged where task is not null limit $2`
)

var _ storage.LogKeeper = (*Store)(nil)

// AppendLogs implements [storage.LogKeeper].
func (s *Store) AppendLogs(ctx context.Context, most int64, pieces ...storage.LogPiece) error {
	if err := storage.CheckLogPieces(pieces); err != nil {
		return fmt.Errorf("postgres: append to logs: %w", err)
	}
	if len(pieces) == 0 {
		return ctx.Err()
	}
	return s.query(ctx, "append to logs", s.do, func() {}, func(*reader) {}, s.sql.appendLogs, most,
		uuids(pieces, func(p storage.LogPiece) task.ID { return p.Task }), bigints(pieces, func(p storage.LogPiece) int64 { return p.At }),
		bigints(pieces, func(p storage.LogPiece) int64 { return int64(p.Mark) }), texts(pieces, func(p storage.LogPiece) string { return string(p.Data) }))
}

// ReadLog implements [storage.LogKeeper].
func (s *Store) ReadLog(ctx context.Context, id task.ID, after int64, size int) (pieces []storage.LogPiece, more bool, err error) {
	err = s.query(ctx, "read a log", s.read, func() { pieces, more = nil, false }, func(r *reader) {
		p := storage.LogPiece{Task: id, At: r.int64(), Mark: uint64(r.int64())}
		more = r.sized(1)[0] != 0
		p.Data = append([]byte{}, r.next()...)
		pieces = append(pieces, p)
	}, s.sql.readLog, id, after, int64(size))
	if err != nil {
		return nil, false, err
	}
	return pieces, more, nil
}

// LoggedTasks implements [storage.LogKeeper].
func (s *Store) LoggedTasks(ctx context.Context, after task.ID, limit int) (ids []task.ID, err error) {
	err = s.query(ctx, "look for logs", s.read, func() { ids = nil }, func(r *reader) {
		var id task.ID
		copy(id[:], r.next())
		ids = append(ids, id)
	}, s.sql.loggedTasks, after, min(max(0, limit), math.MaxInt32))
	return ids, err
}

// RemoveLogs implements [storage.LogKeeper].
func (s *Store) RemoveLogs(ctx context.Context, ids ...task.ID) error {
	if len(ids) == 0 {
		return ctx.Err()
	}
	return s.query(ctx, "remove logs", s.do, func() {}, func(*reader) {}, s.sql.removeLogs, uuids(ids, itself))
}

// TrimLogs implements [storage.LogKeeper].
func (s *Store) TrimLogs(ctx context.Context, most int64, limit int) (left int64, err error) {
	err = s.query(ctx, "trim logs", s.do, func() { left = 0 }, func(r *reader) { left = r.int64() },
		s.sql.trimLogs, most, min(max(0, limit), math.MaxInt32))
	return left, err
}
